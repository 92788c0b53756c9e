//! What the model inside the library cannot show: chats, ranking, samples. Compared with the engine's own results.

use akunu::{Embedder, LoadOptions, Reading, TooLong};
use akunu_c::*;
use akunu_dtype::DType;
use akunu_testkit::{TempDir, fixtures, tones};
use serde_json::json;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::{null, null_mut};

const OK: akunu_status = AKUNU_OK;

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

fn path(path: &Path) -> CString {
    c(path.to_str().unwrap())
}

/// A fixture's model of 512 tokens with a tokenizer of words beside it, and a template.
fn with_words(dir: &TempDir, fixture: &str) -> CString {
    for name in ["config.json", "model.safetensors"] {
        dir.write(name, &std::fs::read(fixtures::path(fixture).join(name)).unwrap());
    }
    let words = ["<unk>", "<s>", "</s>", "user:", "assistant:", "hello"].map(String::from);
    let words = words.into_iter().chain((0..).map(|i| format!("word{i}"))).take(512);
    let vocabulary: serde_json::Map<_, _> = words.zip(0..).map(|(word, id)| (word, id.into())).collect();
    let tokenizer = json!({
        "version": "1.0", "added_tokens": [], "normalizer": null, "post_processor": null,
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": false },
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "model": {
            "type": "WordPiece", "vocab": vocabulary, "unk_token": "<unk>", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        },
    });
    dir.write("tokenizer.json", tokenizer.to_string().as_bytes());
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}assistant:";
    let config = json!({ "bos_token": "<s>", "eos_token": "</s>", "chat_template": template });
    dir.write("tokenizer_config.json", config.to_string().as_bytes());
    path(dir.path())
}

/// A text that is copied out, asked for its length first.
fn text(copy: impl Fn(*mut c_char, usize, *mut usize) -> akunu_status) -> String {
    let mut length = 0;
    assert_eq!(copy(null_mut(), 0, &raw mut length), OK);
    let mut bytes = vec![0u8; length + 1];
    assert_eq!(copy(bytes.as_mut_ptr().cast(), bytes.len(), &raw mut length), OK);
    CStr::from_bytes_with_nul(&bytes).unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_chat_computes_only_what_is_new() {
    let dir = TempDir::new();
    let (mut model, mut session) = (akunu_model { id: 0 }, akunu_session { id: 0 });
    let said = [c("user"), c("hello word1 word2"), c("assistant"), c("user"), c("word3")];
    let message = |role: usize, content: *const c_char| akunu_message { role: said[role].as_ptr(), content };
    let mut messages = vec![message(0, said[1].as_ptr())];
    // SAFETY: pointers lead to values of this function, and counts are theirs.
    unsafe {
        assert_eq!(akunu_model_load(with_words(&dir, "hf/llama-untied").as_ptr(), null(), &raw mut model), OK);
        assert_eq!(akunu_session_create(model, &raw mut session), OK);
        let mut options: akunu_generate_options = std::mem::zeroed();
        assert_eq!(akunu_generate_options_default(&raw mut options, size_of_val(&options)), OK);
        (options.max_tokens, options.flags) = (6, AKUNU_IGNORE_END);
        let mut result: akunu_result = std::mem::zeroed();
        result.size = size_of_val(&result) as u32;

        let prompt = text(|to, room, n| akunu_chat_prompt(model, messages.as_ptr(), 1, to, room, n));
        assert_eq!(prompt, "user: hello word1 word2 assistant:");
        let json = c(r#"{"messages": [{"role": "user", "content": "hello word1 word2"}]}"#);
        let of_json = |to, room, n| akunu_chat_prompt_json(model, json.as_ptr(), AKUNU_NUL_TERMINATED, to, room, n);
        assert_eq!(text(of_json), prompt);

        let chat = |messages: &[akunu_message], result: &mut akunu_result| {
            akunu_session_chat(session, messages.as_ptr(), messages.len(), &raw const options, None, null_mut(), result)
        };
        assert_eq!(chat(&messages, &mut result), OK);
        assert_eq!((result.prompt_tokens, result.reused_tokens, result.generated_tokens), (5, 0, 6));
        let answer = c(&text(|to, room, n| akunu_session_text(session, to, room, n)));
        messages.extend([message(2, answer.as_ptr()), message(3, said[4].as_ptr())]);
        assert_eq!(chat(&messages, &mut result), OK);
        assert!(result.reused_tokens >= 5 && result.reused_tokens < result.prompt_tokens, "{result:?}");
        let again = text(|to, room, n| akunu_session_text(session, to, room, n));
        assert_eq!(akunu_session_reset(session), OK);
        assert_eq!(chat(&messages, &mut result), OK);
        assert_eq!(result.reused_tokens, 0);
        assert_eq!(text(|to, room, n| akunu_session_text(session, to, room, n)), again);
        assert_eq!((akunu_session_free(session), akunu_model_free(model)), (OK, OK));
    }
}

#[test]
fn documents_have_the_engines_scores() {
    let dir = TempDir::new();
    let folder = with_words(&dir, "hf/bert-ranker");
    let documents = ["word1 word2", "hello", "word7 word8 word9"];
    let mut engines = Embedder::load(dir.path(), LoadOptions::default(), Reading::Scores).unwrap();
    let pairs: Vec<_> = documents.iter().map(|d| engines.pair("hello word1", d, TooLong::Refuse).unwrap()).collect();
    let mut expected = [0.0; 3];
    engines.read(&pairs, |pair, score| expected[pair] = score[0]).unwrap();

    let texts = documents.map(c);
    let texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    let (mut embedder, mut scores) = (akunu_embedder { id: 0 }, [0.0; 3]);
    // SAFETY: pointers lead to values of this function, and counts are theirs.
    unsafe {
        let loaded = akunu_embedder_load(folder.as_ptr(), null(), AKUNU_PURPOSE_RANK, 0, &raw mut embedder);
        assert_eq!(loaded, OK);
        let query = c("hello word1");
        assert_eq!(akunu_rerank(embedder, query.as_ptr(), texts.as_ptr(), 3, 0, scores.as_mut_ptr()), OK);
        let mut vectors = [0.0; 3];
        let embedded = akunu_embed(embedder, texts.as_ptr(), 3, 0, vectors.as_mut_ptr(), 3, null_mut());
        assert_eq!(embedded, AKUNU_ERROR_MODEL);
        assert_eq!(akunu_embedder_free(embedder), OK);
    }
    assert_eq!(scores, expected);
}

#[test]
fn samples_are_transcribed_as_their_file_is() {
    let dir = TempDir::new();
    let samples = tones::play(&tones::expected()["recordings"]["short"]);
    let sound = path(&dir.write("tones.wav", &tones::wav(&samples)));
    let samples: Vec<f32> = samples.iter().map(|sample| f32::from(*sample) / 32768.0).collect();
    let mut transcriber = akunu_transcriber { id: 0 };
    let transcript = |transcriber, format| {
        text(|to, room, n| {
            // SAFETY: `text` gives room for as many as it says.
            unsafe { akunu_transcript(transcriber, format, to, room, n) }
        })
    };
    // SAFETY: pointers lead to values of this function, and counts are theirs.
    unsafe {
        let model = path(&tones::model(&dir, DType::F32));
        assert_eq!(akunu_transcriber_load(model.as_ptr(), null(), &raw mut transcriber), OK);
        assert_eq!(akunu_transcribe(transcriber, sound.as_ptr(), null(), None, null_mut()), OK);
        let of_file = transcript(transcriber, AKUNU_TRANSCRIPT_SRT);
        assert!(of_file.contains("-->") && of_file.contains("la so re do."), "{of_file}");
        let of_samples =
            akunu_transcribe_samples(transcriber, samples.as_ptr(), samples.len(), null(), None, null_mut());
        assert_eq!(of_samples, OK);
        assert_eq!(transcript(transcriber, AKUNU_TRANSCRIPT_SRT), of_file);
        assert_eq!(transcript(transcriber, AKUNU_TRANSCRIPT_TEXT), "la so re do. so fa fa re re.");
        assert_eq!(akunu_transcriber_free(transcriber), OK);
    }
}
