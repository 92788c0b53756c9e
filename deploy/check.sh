#!/usr/bin/env bash
# Checks the files of this folder with the programs that read them: `deploy/check.sh [AKUNU]`. A step whose program is missing is
# skipped and says so. Without AKUNU, a binary of ours, nothing is served: only the files are read.
set -euo pipefail
cd "$(dirname "$0")"
akunu=${1:+$(realpath "$1")}
work=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# Whether all programs are there.
has() {
    local program
    for program in "${@:2}"; do
        command -v "$program" >/dev/null && continue
        printf 'skipped: %s: there is no %s\n' "$1" "$program"
        return 1
    done
}

# The unit, as systemd reads it; its exposure is a number from 0 to 10.
if has akunu.service systemd-analyze; then
    sed "s#^ExecStart=[^ ]*#ExecStart=${akunu:-/bin/true}#" akunu.service >"$work/akunu.service"
    systemd-analyze verify "$work/akunu.service" || fail 'akunu.service is no unit'
    systemd-analyze security --offline=true --threshold=20 "$work/akunu.service" >"$work/security" ||
        fail "akunu.service: $(tail -n 1 "$work/security")"
    printf 'ok: akunu.service: %s\n' "$(tail -n 1 "$work/security" | grep -o 'exposure.*')"
fi

# The manifests, against the schemas of Kubernetes; those of other projects are not known there.
if has kubernetes.yaml kubernetes-validate; then
    kubernetes-validate --strict --quiet --no-warn kubernetes.yaml || fail 'a manifest is not valid'
    echo 'ok: kubernetes.yaml'
fi

[ -n "$akunu" ] || { echo 'skipped: nginx.conf, Containerfile: no binary was given' && exit; }

# Starts a server with the arguments; `$address` is where it listens.
serve() {
    "$akunu" serve embedded --port 0 --print-address --log error "$@" >"$work/address" 2>>"$work/serve.log" &
    started+=($!)
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        [ -s "$work/address" ] && break
        sleep 0.1
    done
    address=$(<"$work/address")
    address=${address#http://}
    rm "$work/address"
}

# A metric of a server.
metric() {
    curl -sS "http://$1/metrics" | awk -v name="akunu_$2{" 'index($0, name) == 1 { print $2 }'
}

if has nginx.conf nginx openssl curl; then
    # So little at once that an answer takes a while.
    set -- --allow-host models.example --threads 1 --sequences 1
    serve "$@" && one=$address first=${started[-1]}
    serve "$@" && two=$address
    port=$((20000 + RANDOM % 10000))
    openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=models.example \
        -keyout "$work/models.example.key" -out "$work/models.example.pem" 2>/dev/null
    sed -e "s#10.0.0.11:8080#$one#; s#10.0.0.12:8080#$two#" -e "s#listen 443 #listen 127.0.0.1:$port #" \
        -e "s#/etc/ssl/#$work/#" nginx.conf >"$work/akunu.conf"
    cat >"$work/nginx.conf" <<END
daemon off;
worker_processes 1;
pid $work/nginx.pid;
error_log $work/error.log;
events {}
http {
    log_format upstream '\$upstream_addr \$status';
    access_log $work/access.log upstream;
    include $work/akunu.conf;
}
END
    nginx -t -q -c "$work/nginx.conf" || fail 'nginx.conf is not one'
    nginx -c "$work/nginx.conf" &
    started+=($!)
    sleep 1
    through() {
        curl -sSk --resolve "models.example:$port:127.0.0.1" "https://models.example:$port$1" "${@:2}"
    }
    through /v1/models | grep -q '"stories"' || fail 'nothing comes through nginx'
    ask='{"prompt":"Once upon a time","max_tokens":400,"n":16,"stream":true}'

    # Events come one by one: from the first to the last is most of the time.
    begun=$EPOCHREALTIME
    through /v1/completions -N -H 'content-type: application/json' -d "$ask" |
        while IFS= read -r line; do if [[ $line == data:* ]]; then echo "$EPOCHREALTIME"; fi; done >"$work/times"
    sed -n "1p;\$p" "$work/times" | paste -s | awk -v begun="$begun" -v events="$(wc -l <"$work/times")" '
        { printf "ok: nginx.conf: %d events, the first after %.3f s, the last after %.3f s\n", events, $1 - begun, $2 - begun
          exit !(events > 100 && $2 - $1 > ($2 - begun) / 2) }' || fail 'a stream comes through nginx in one piece'

    # A client that goes away is cancelled behind the proxy.
    before=$(($(metric "$one" requests_cancelled_total) + $(metric "$two" requests_cancelled_total)))
    through /v1/completions --max-time 0.3 -o /dev/null -H 'content-type: application/json' -d "$ask" 2>/dev/null &&
        fail 'the request ended before it could be cancelled'
    sleep 1
    after=$(($(metric "$one" requests_cancelled_total) + $(metric "$two" requests_cancelled_total)))
    running=$(($(metric "$one" requests_running) + $(metric "$two" requests_running)))
    [ "$after" -gt "$before" ] && [ "$running" = 0 ] || fail "$running requests still run for a client that is gone"
    echo "ok: nginx.conf: a client that goes away is cancelled"

    # A session stays with a replica, sessions spread over both, connections are kept.
    : >"$work/access.log"
    for session in 1 2 3 4 5 6 7 8 9 10 11 12; do
        for _ in 1 2 3; do through /v1/models -o /dev/null -H "X-Session-Id: session-$session"; done
    done
    awk '{ replica[$1]++; if ((NR - 1) % 3 == 0) at = $1; else if ($1 != at) moved++ }
        END { exit !(length(replica) == 2 && !moved) }' "$work/access.log" || fail 'sessions do not stay with their replica'
    echo "ok: nginx.conf: sessions stay with their replica"

    # A replica that is away costs nobody an answer.
    kill "$first" && wait "$first" || true
    for session in 1 2 3 4 5 6 7 8 9 10 11 12; do
        through /v1/models -f -o /dev/null -H "X-Session-Id: session-$session" || fail 'a replica that is away costs an answer'
    done
    echo "ok: nginx.conf: the other replica answers for one that is away"
fi

# The image, over a root file system of Debian's own (ROOT, or made here). No compiler runs: a stand-in for cargo puts the given
# binary where it would. Isolation by chroot needs neither cgroups nor namespaces, so that this runs inside a container too.
if has Containerfile buildah debootstrap && [ "$(id -u)" = 0 ]; then
    export BUILDAH_ISOLATION=chroot
    root=${ROOT:-$work/root}
    [ -d "$root" ] || debootstrap --variant=minbase trixie "$root" >"$work/debootstrap" || fail "$(tail -n 1 "$work/debootstrap")"
    image=localhost/akunu-check
    cat >"$work/cargo" <<'END'
#!/bin/sh
set -e
test "$*" = "build --release --locked -p akunu-cli" -a -f Cargo.toml
mkdir -p target/release
cp /akunu target/release/
END
    container=$(buildah from scratch)
    buildah add -q "$container" "$root" / >/dev/null
    buildah commit -q "$container" "$image-debian" >/dev/null
    buildah copy -q --chmod 755 "$container" "$work/cargo" /usr/local/bin/cargo >/dev/null
    buildah copy -q --chmod 755 "$container" "$akunu" /akunu >/dev/null
    buildah commit -q --rm "$container" "$image-rust" >/dev/null
    buildah build -q -t "$image" -f Containerfile --ignorefile ../.containerignore \
        --build-arg "RUST=$image-rust" --build-arg "DEBIAN=$image-debian" .. >/dev/null

    container=$(buildah from "$image")
    [ "$(buildah run "$container" id -u)" = 10001 ] || fail 'the image runs as root'
    read -ra command <<<"$(buildah inspect --format '{{range .OCIv1.Config.Entrypoint}}{{.}} {{end}}' "$container")"
    mkdir "$work/models"
    port=$((20000 + RANDOM % 10000))
    buildah run --volume "$work/models:/models:ro" "$container" -- "${command[@]}" embedded --port "$port" 2>>"$work/serve.log" &
    started+=($!)
    for ((tries = 0; tries < 100; tries++)); do
        curl -sf -o /dev/null "http://127.0.0.1:$port/ready" && break
        sleep 0.1
    done
    curl -sSf "http://127.0.0.1:$port/v1/models" | grep -q '"stories"' || fail "the image does not serve: $(<"$work/serve.log")"
    kill "${started[-1]}" && wait "${started[-1]}" || true
    buildah rm "$container" >/dev/null
    buildah rmi -f "$image" "$image-rust" "$image-debian" >/dev/null
    echo 'ok: Containerfile: builds over Debian, serves, and not as root'
fi
