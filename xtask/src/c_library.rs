//! `cargo xtask c-library`: the C library as packages have it, under a prefix: libraries, headers, pkg-config and CMake files.

use std::fs;
use std::io;
use std::path::Path;

/// What builds of the crate are called, and what is installed: the file, and the links to it.
#[cfg(target_vendor = "apple")]
const SHARED: (&str, &str, &[&str]) = ("libakunu_c.dylib", "libakunu.0.dylib", &["libakunu.dylib"]);
#[cfg(not(target_vendor = "apple"))]
const SHARED: (&str, &str, &[&str]) =
    ("libakunu_c.so", concat!("libakunu.so.", env!("CARGO_PKG_VERSION")), &["libakunu.so.0", "libakunu.so"]);
const STATIC: (&str, &str) = ("libakunu_c.a", "libakunu.a");

/// What a program must be linked with besides, where it takes the static library.
const SYSTEM: &str =
    if cfg!(target_vendor = "apple") { "-lSystem -lc -lm" } else { "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc" };

/// Installs what was built in the folder `built` from the repository at `root`.
pub fn install(root: &Path, built: &Path, prefix: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Err(io::Error::other("not supported: installing the C library on this system"));
    }
    let (include, lib) = (prefix.join("include/akunu"), prefix.join("lib"));
    let (pkgconfig, cmake) = (lib.join("pkgconfig"), lib.join("cmake/akunu"));
    for folder in [&include, &pkgconfig, &cmake] {
        fs::create_dir_all(folder)?;
    }
    for header in fs::read_dir(root.join("include/akunu"))? {
        let header = header?;
        fs::copy(header.path(), include.join(header.file_name()))?;
    }
    let (from, shared, links) = SHARED;
    replace(&built.join(from), &lib.join(shared))?;
    replace(&built.join(STATIC.0), &lib.join(STATIC.1))?;
    for link in links {
        let link = lib.join(link);
        let _ = fs::remove_file(&link);
        #[cfg(unix)]
        std::os::unix::fs::symlink(shared, &link)?;
    }
    fs::write(pkgconfig.join("akunu.pc"), pkg_config())?;
    fs::write(cmake.join("akunuConfig.cmake"), cmake_config(shared))?;
    fs::write(cmake.join("akunuConfigVersion.cmake"), CMAKE_VERSION)
}

/// A new file, so that programs that run keep the old one.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let _ = fs::remove_file(to);
    fs::copy(from, to).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", from.display())))?;
    Ok(())
}

fn pkg_config() -> String {
    format!(
        "prefix=${{pcfiledir}}/../..
includedir=${{prefix}}/include
libdir=${{prefix}}/lib

Name: akunu
Description: A local inference engine for language models, embeddings and speech
Version: {}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -lakunu
Libs.private: {SYSTEM}
",
        env!("CARGO_PKG_VERSION")
    )
}

fn cmake_config(shared: &str) -> String {
    let system: Vec<&str> = SYSTEM.split(' ').map(|flag| flag.trim_start_matches("-l")).collect();
    format!(
        r#"get_filename_component(AKUNU_PREFIX "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
foreach(kind SHARED STATIC)
  string(TOLOWER ${{kind}} name)
  if(NOT TARGET akunu::${{name}})
    add_library(akunu::${{name}} ${{kind}} IMPORTED)
    set_target_properties(akunu::${{name}} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${{AKUNU_PREFIX}}/include")
  endif()
endforeach()
set_target_properties(akunu::shared PROPERTIES IMPORTED_LOCATION "${{AKUNU_PREFIX}}/lib/{shared}")
set_target_properties(akunu::static PROPERTIES
  IMPORTED_LOCATION "${{AKUNU_PREFIX}}/lib/libakunu.a"
  INTERFACE_LINK_LIBRARIES "{}")
if(NOT TARGET akunu::akunu)
  add_library(akunu::akunu INTERFACE IMPORTED)
  set_target_properties(akunu::akunu PROPERTIES INTERFACE_LINK_LIBRARIES akunu::shared)
endif()
"#,
        system.join(";")
    )
}

/// Until 1.0 every minor version may change the API.
const CMAKE_VERSION: &str = concat!(
    "set(PACKAGE_VERSION ",
    env!("CARGO_PKG_VERSION"),
    ")
string(REGEX MATCH \"^[0-9]+\\\\.[0-9]+\" akunu_have ${PACKAGE_VERSION})
string(REGEX MATCH \"^[0-9]+\\\\.[0-9]+\" akunu_asked \"${PACKAGE_FIND_VERSION}\")
if(akunu_have STREQUAL akunu_asked AND NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
"
);
