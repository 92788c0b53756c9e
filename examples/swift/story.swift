// Continues a text as it comes: swiftc -I include -L lib -Xcc -fmodule-map-file=include/akunu/module.modulemap story.swift
import CAkunu

func check(_ status: akunu_status) {
    if status < 0 {
        fatalError(String(cString: akunu_last_error()))
    }
}

var model = akunu_model()
var session = akunu_session()
var options = akunu_generate_options()
check(akunu_generate_options_default(&options, MemoryLayout<akunu_generate_options>.size))
options.max_tokens = 32
check(akunu_model_load(nil, nil, &model))
check(akunu_session_create(model, &session))
let prompt = "Once upon a time"
check(akunu_session_generate(session, prompt, prompt.utf8.count, &options, { piece, _ in
    print(String(cString: piece!.pointee.text), terminator: "")
    return 0
}, nil, nil))
print()
check(akunu_session_free(session))
check(akunu_model_free(model))
