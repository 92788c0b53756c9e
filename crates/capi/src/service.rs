//! Services: many requests at once, on a thread of the library.

use crate::call::{Failure, Outcome, call, lock};
use crate::generate::{Watcher, finish};
use crate::memory::{self, Items, Out, Report, Room, Text};
use crate::model::Model;
use crate::types::*;
use crate::{convert, handle, text};
use akunu::{Canceller, Reply, Request, Service};
use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

/// A service and its model, which tokenizes for it.
pub(crate) struct Running {
    service: Service,
    model: Arc<Model>,
}

/// A request, and what has come of it.
pub(crate) struct Submitted {
    answer: Mutex<Answer>,
    canceller: Canceller,
    cancelled: AtomicBool,
}

struct Answer {
    reply: Reply,
    text: String,
    prompt: u32,
    generated: u32,
    last_token: Option<u32>,
    submitted: Instant,
    end: Option<Result<akunu_result, Ended>>,
}

/// Why a request failed, as often as somebody asks.
#[derive(Clone)]
struct Ended {
    status: akunu_status,
    why: String,
}

impl Running {
    fn submit(&self, tokens: Vec<u32>, options: &akunu_generate_options) -> Result<akunu_request, Failure> {
        if options.draft.id != 0 {
            return Err(Failure::argument("not supported: a draft model for a request of a service"));
        }
        let options = convert::generate(options, &self.model)?;
        let prompt = tokens.len() as u32;
        let reply = self.service.submit(Request { tokens, options })?;
        let canceller = reply.canceller();
        let (text, submitted) = (String::new(), Instant::now());
        let answer = Answer { reply, text, prompt, generated: 0, last_token: None, submitted, end: None };
        handle::insert(Submitted { answer: Mutex::new(answer), canceller, cancelled: AtomicBool::new(false) })
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        self.canceller.cancel();
    }
}

impl Submitted {
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.canceller.cancel();
    }

    /// Shows what comes until the request ends or the time is over.
    fn poll(&self, time: Duration, watcher: &mut Watcher) -> Outcome {
        let mut answer = lock("request", &self.answer)?;
        let begun = Instant::now();
        while answer.end.is_none() {
            let left = time.saturating_sub(begun.elapsed());
            let (seen, stopped) = match answer.reply.next_within(left) {
                Poll::Pending => return Ok(AKUNU_PENDING),
                Poll::Ready(Some(Ok(piece))) => {
                    answer.generated += 1;
                    answer.last_token = Some(piece.token);
                    (None, !watcher.see(&piece))
                }
                Poll::Ready(Some(Err(error))) => (Some(Err(Failure::from(error))), false),
                Poll::Ready(None) => {
                    let summary = answer.reply.summary().cloned();
                    let rest = summary.as_ref().map(|s| s.rest.clone()).unwrap_or_default();
                    (summary.map(Ok), !watcher.see_rest(rest, answer.last_token))
                }
            };
            answer.text.push_str(&std::mem::take(&mut watcher.text));
            let result = |finish, stop_index, reused_tokens, first_token: Duration, seconds: Duration| akunu_result {
                size: 0,
                finish,
                stop_index,
                prompt_tokens: answer.prompt,
                reused_tokens,
                generated_tokens: answer.generated,
                first_token_seconds: first_token.as_secs_f64(),
                seconds: seconds.as_secs_f64(),
            };
            let cut = |answer: &Answer| result(AKUNU_FINISH_STOPPED, 0, 0, Duration::ZERO, answer.submitted.elapsed());
            answer.end = match seen {
                _ if stopped => {
                    self.cancel();
                    Some(Ok(cut(&answer)))
                }
                Some(Ok(s)) => {
                    let (finish, stop_index) = finish(s.finish);
                    Some(Ok(result(finish, stop_index, s.cached as u32, s.first_token, s.total)))
                }
                Some(Err(_)) if self.cancelled.load(Ordering::Relaxed) => Some(Ok(cut(&answer))),
                Some(Err(Failure { status, why })) => Some(Err(Ended { status, why })),
                None => None,
            };
        }
        match answer.end.clone() {
            Some(Err(Ended { status, why })) => Err(Failure { status, why }),
            Some(Ok(akunu_result { finish: AKUNU_FINISH_STOPPED, .. })) => Ok(AKUNU_STOPPED),
            _ => Ok(AKUNU_OK),
        }
    }
}

/// Fills options with the defaults; `size` is that of the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_service_options_default(
    options: *mut akunu_service_options,
    size: usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    call(|| unsafe { memory::write_defaults(options, size) })
}

/// Starts a service that runs a model without sessions. The model's handle still tokenizes and renders prompts; whatever else would
/// run it is `AKUNU_ERROR_BUSY`. Load it with as many `sequences` as requests run at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_service_start(
    model: akunu_model,
    options: *const akunu_service_options,
    service: *mut akunu_service,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (options, service) =
            unsafe { (memory::read("the service options", options)?, Out::new("the service", service)) };
        service.check()?;
        let model = handle::get(model)?;
        let started = Service::start(model.take_engine()?, convert::scheduler(&options))?;
        service.put(handle::insert(Running { service: started, model })?)
    })
}

/// Ends a service and the requests that still run.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_service_free(service: akunu_service) -> akunu_status {
    call(|| handle::free(service))
}

/// What goes on in a service.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_service_describe(service: akunu_service, info: *mut akunu_service_info) -> akunu_status {
    // SAFETY: the caller's promise.
    let info = unsafe { Report::new("the service info", info) };
    call(|| {
        let metrics = handle::get(service)?.service.metrics();
        info.must_put(&akunu_service_info {
            size: 0,
            running: metrics.running as u32,
            waiting: metrics.waiting as u32,
            reserved: 0,
            submitted: metrics.submitted,
            finished: metrics.finished,
            cancelled: metrics.cancelled,
            failed: metrics.failed,
            steps: metrics.steps,
            generated_tokens: metrics.generated_tokens,
        })
    })
}

/// Queues a text to continue. `flags` are those of `akunu_tokenize`: `AKUNU_ADD_SPECIAL` for a text, `AKUNU_PARSE_SPECIAL` for a
/// prompt of `akunu_chat_prompt`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_service_submit(
    service: akunu_service,
    text: *const c_char,
    length: usize,
    flags: u32,
    options: *const akunu_generate_options,
    request: *mut akunu_request,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (text, options, request) = unsafe {
            let options = memory::read("the generate options", options)?;
            (Text::new("the text", text, length), options, Out::new("the request", request))
        };
        request.check()?;
        let service = handle::get(service)?;
        let tokens = service.model.tokens(text.str()?, text::encode(flags)?)?;
        request.put(service.submit(tokens, &options)?)
    })
}

/// Queues tokens to continue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_service_submit_tokens(
    service: akunu_service,
    tokens: *const u32,
    count: usize,
    options: *const akunu_generate_options,
    request: *mut akunu_request,
) -> akunu_status {
    call(|| {
        // SAFETY: the caller's promise.
        let (tokens, options, request) = unsafe {
            let options = memory::read("the generate options", options)?;
            (Items::new("the tokens", tokens, count), options, Out::new("the request", request))
        };
        request.check()?;
        request.put(handle::get(service)?.submit(tokens.slice()?.to_vec(), &options)?)
    })
}

/// Shows the pieces that have come since the last poll, and those that come until the request ends or the time is over:
/// `AKUNU_PENDING` then. A callback that asks to stop cancels the request. With a timeout of 0 it does not wait.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_request_poll(
    request: akunu_request,
    timeout_ms: u32,
    on_piece: akunu_piece_callback,
    user_data: *mut c_void,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let mut watcher = unsafe { Watcher::new(on_piece, user_data) };
    call(|| handle::get(request)?.poll(Duration::from_millis(timeout_ms.into()), &mut watcher))
}

/// Cancels a request; its next poll says `AKUNU_STOPPED`, also one that waits in another thread.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_request_cancel(request: akunu_request) -> akunu_status {
    call(|| {
        handle::get(request)?.cancel();
        Ok(AKUNU_OK)
    })
}

/// Cancels a request and frees it.
#[unsafe(no_mangle)]
pub extern "C" fn akunu_request_free(request: akunu_request) -> akunu_status {
    call(|| handle::free(request))
}

/// The text that polls have shown so far, with a NUL after it that its length does not count. With no capacity it only counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_request_text(
    request: akunu_request,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> akunu_status {
    // SAFETY: the caller's promise.
    let text = unsafe { Room::new("the text", text, capacity, length) };
    call(|| text.put_text(&lock("request", &handle::get(request)?.answer)?.text))
}

/// How a request ended; `AKUNU_PENDING` where a poll has not seen that yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn akunu_request_result(request: akunu_request, result: *mut akunu_result) -> akunu_status {
    // SAFETY: the caller's promise.
    let report = unsafe { Report::new("the result", result) };
    call(|| {
        let request = handle::get(request)?;
        let answer = lock("request", &request.answer)?;
        match &answer.end {
            None => Ok(AKUNU_PENDING),
            Some(Ok(result)) => report.must_put(result),
            Some(Err(Ended { status, why })) => Err(Failure::new(*status, why)),
        }
    })
}
