//! The engine's own filters, tests and functions, each paying for what it looks at before it does.

use minijinja::value::{FunctionArgs, FunctionResult, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, functions, tests};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::budget::{self, keep, look, read_all, read_items, settle, spend, weight};
use super::{environment, namespace, python};

/// What a filter looks at in the value that it is applied to.
#[derive(Clone, Copy)]
enum Looks {
    /// At its kind and ends.
    Nowhere,
    /// At its length, which texts do not know.
    Length,
    /// At its items, and by a path or another filter into each.
    Items,
    /// At everything.
    All,
    /// At everything, as often as sorting does.
    Sorting,
}

fn paid<F, R, A>(environment: &mut Environment<'_>, names: &[&'static str], looks: Looks, filter: F)
where
    F: functions::Function<R, A>,
    R: FunctionResult,
    A: for<'a> FunctionArgs<'a>,
{
    let filter = Value::from_function(filter);
    for name in names {
        let filter = filter.clone();
        environment.add_filter(*name, move |state: &State<'_, '_>, args: Rest<Value>| {
            if let Some((value, rest)) = args.split_first() {
                pay(value, rest, looks)?;
            }
            let result = settle(filter.call(state, &args)?)?;
            match looks {
                Looks::Nowhere | Looks::Length => return Ok::<Value, Error>(result),
                Looks::All => {}
                // Some make lists of lists.
                Looks::Items | Looks::Sorting => keep(&result)?,
            }
            spend(weight(&result))?;
            Ok(result)
        });
    }
}

fn pay(value: &Value, rest: &[Value], looks: Looks) -> Result<(), Error> {
    rest.iter().try_for_each(read_all)?;
    match looks {
        Looks::Nowhere => Ok(()),
        Looks::Length => {
            if value.kind() == ValueKind::String {
                read_items(value)
            } else {
                Ok(())
            }
        }
        Looks::Items => {
            read_items(value)?;
            for argument in rest {
                let path = python::str_of(argument)?.len();
                if value.kind() != ValueKind::String {
                    look(path.saturating_mul(value.len().unwrap_or(0)))?;
                }
            }
            Ok(())
        }
        Looks::All => read_all(value),
        Looks::Sorting => {
            pay_for_sorting(value)?;
            for argument in rest {
                let path = python::str_of(argument)?.len();
                look(path.saturating_mul(value.len().unwrap_or(0)).saturating_mul(rounds(value)))?;
            }
            Ok(())
        }
    }
}

/// How often sorting looks at an item.
fn rounds(value: &Value) -> usize {
    value.len().unwrap_or(0).max(1).ilog2() as usize + 1
}

pub(super) fn pay_for_sorting(value: &Value) -> Result<(), Error> {
    (0..rounds(value)).try_for_each(|_| read_all(value))
}

/// Adds what templates may call.
pub(super) fn add(environment: &mut Environment<'_>) {
    let e = environment;
    paid(e, &["length", "count"], Looks::Length, filters::length);
    paid(e, &["first"], Looks::Nowhere, filters::first);
    paid(e, &["attr"], Looks::Items, filters::attr);
    paid(e, &["last"], Looks::Items, filters::last);
    paid(e, &["reverse"], Looks::Items, filters::reverse);
    paid(e, &["list"], Looks::Items, list);
    paid(e, &["items"], Looks::Items, filters::items);
    paid(e, &["map"], Looks::Items, filters::map);
    paid(e, &["select"], Looks::Items, filters::select);
    paid(e, &["reject"], Looks::Items, filters::reject);
    paid(e, &["selectattr"], Looks::Items, filters::selectattr);
    paid(e, &["rejectattr"], Looks::Items, filters::rejectattr);
    paid(e, &["sum"], Looks::Items, filters::sum);
    paid(e, &["zip"], Looks::Items, filters::zip);
    paid(e, &["chain"], Looks::Items, chain);
    paid(e, &["safe"], Looks::All, filters::safe);
    paid(e, &["escape", "e"], Looks::All, filters::escape);
    paid(e, &["lower"], Looks::All, filters::lower);
    paid(e, &["upper"], Looks::All, filters::upper);
    paid(e, &["title"], Looks::All, filters::title);
    paid(e, &["capitalize"], Looks::All, filters::capitalize);
    paid(e, &["trim"], Looks::All, trim);
    paid(e, &["split"], Looks::All, split);
    paid(e, &["lines"], Looks::All, lines);
    paid(e, &["round"], Looks::All, filters::round);
    paid(e, &["abs"], Looks::All, filters::abs);
    paid(e, &["int"], Looks::All, filters::int);
    paid(e, &["float"], Looks::All, filters::float);
    paid(e, &["min"], Looks::All, filters::min);
    paid(e, &["max"], Looks::All, filters::max);
    paid(e, &["sort"], Looks::Sorting, filters::sort);
    paid(e, &["dictsort"], Looks::Sorting, filters::dictsort);
    paid(e, &["groupby"], Looks::Sorting, filters::groupby);
    paid(e, &["unique"], Looks::Sorting, filters::unique);
    paid(e, &["tojson"], Looks::Nowhere, python::tojson);
    paid(e, &["string"], Looks::Nowhere, environment::text);
    paid(e, &["join"], Looks::Nowhere, environment::join);
    paid(e, &["replace"], Looks::Nowhere, environment::replace);
    paid(e, &["indent"], Looks::Nowhere, environment::indent);
    // Padding by a number that the template chooses; no chat template needs them.
    for name in ["batch", "slice", "format", "pprint"] {
        e.remove_filter(name);
    }

    test(e, &["eq", "equalto", "=="], tests::is_eq);
    test(e, &["ne", "!="], tests::is_ne);
    test(e, &["lt", "lessthan", "<"], tests::is_lt);
    test(e, &["le", "<="], tests::is_le);
    test(e, &["gt", "greaterthan", ">"], tests::is_gt);
    test(e, &["ge", ">="], tests::is_ge);
    test(e, &["in"], tests::is_in);
    test(e, &["sameas"], tests::is_sameas);
    test(e, &["lower"], tests::is_lower);
    test(e, &["upper"], tests::is_upper);
    test(e, &["startingwith"], tests::is_startingwith);
    test(e, &["endingwith"], tests::is_endingwith);
    // The engine's own divides by zero.
    e.add_test("divisibleby", |value: Value, by: Value| match (i128::try_from(value), i128::try_from(by)) {
        (Ok(value), Ok(by)) => value.checked_rem(by) == Some(0),
        _ => false,
    });
    // Jinja asks Python, for which texts and dictionaries are sequences too.
    let iterates = |value: &Value| {
        matches!(
            value.kind(),
            ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::Undefined
        )
    };
    e.add_test("sequence", iterates);
    e.add_test("iterable", iterates);

    function(e, "dict", functions::dict);
    e.add_function("namespace", namespace::namespace);
    // It prints all that there is.
    e.remove_global("debug");
}

fn test<F, R, A>(environment: &mut Environment<'_>, names: &[&'static str], test: F)
where
    F: functions::Function<R, A>,
    R: FunctionResult,
    A: for<'a> FunctionArgs<'a>,
{
    let test = Value::from_function(test);
    for name in names {
        let test = test.clone();
        environment.add_test(*name, move |state: &State<'_, '_>, args: Rest<Value>| {
            args.iter().try_for_each(read_all)?;
            test.call(state, &args)
        });
    }
}

fn function<F, R, A>(environment: &mut Environment<'_>, name: &'static str, function: F)
where
    F: functions::Function<R, A>,
    R: FunctionResult,
    A: for<'a> FunctionArgs<'a>,
{
    let function = Value::from_function(function);
    environment.add_function(name, move |state: &State<'_, '_>, args: Rest<Value>| {
        for argument in args.iter() {
            spend(weight(argument))?;
            keep(argument)?;
        }
        function.call(state, &args)
    });
}

fn list(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    spend(value.len().unwrap_or(0).saturating_mul(16))?;
    filters::list(state, value)
}

/// `loop.cycle(…)`, which in the engine divides by the number of arguments.
pub(super) fn cycle(state: &State<'_, '_>, turn: &Value, args: Rest<Value>) -> Result<Value, Error> {
    if args.is_empty() {
        return Err(Error::new(ErrorKind::MissingArgument, "cycle takes what it goes through"));
    }
    turn.call_method(state, "cycle", &args)
}

/// Lists or dictionaries in a row, made at once.
fn chain(values: Rest<Value>) -> Result<Value, Error> {
    if values.iter().all(|value| value.kind() == ValueKind::Map) {
        let mut pairs = Vec::new();
        for map in values.iter() {
            for key in map.try_iter()? {
                spend(weight(&key) + 16)?;
                let item = map.get_item(&key)?;
                pairs.push((key, item));
            }
        }
        return Ok(pairs.into_iter().collect());
    }
    let mut items = Vec::new();
    for value in values.iter() {
        for item in value.try_iter()? {
            spend(16)?;
            items.push(item);
        }
    }
    Ok(Value::from(items))
}

fn trim(state: &State<'_, '_>, args: Rest<Value>) -> Result<Value, Error> {
    if let [value, chars, ..] = &args[..] {
        pay_for_trimming(value, chars)?;
    }
    Value::from_function(filters::trim).call(state, &args)
}

/// Every character of a text is compared with every one of a list.
fn pay_for_trimming(text: &Value, chars: &Value) -> Result<(), Error> {
    let length = |value: &Value| value.as_str().map_or(0, str::len);
    look(length(text).saturating_mul(length(chars)))
}

fn split(state: &State<'_, '_>, args: Rest<Value>) -> Result<Value, Error> {
    if let Some(text) = args.first().and_then(Value::as_str) {
        pay_for_pieces(text, args.get(1))?;
    }
    Value::from_function(filters::split).call(state, &args)
}

fn lines(value: &Value) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        pay_for_pieces(text, None)?;
    }
    filters::lines(value)
}

/// Pays for the list of the pieces between `separator`, or between white space.
fn pay_for_pieces(text: &str, separator: Option<&Value>) -> Result<(), Error> {
    let pieces = match separator.and_then(Value::as_str) {
        Some(separator) => text.matches(separator).count(),
        None => text.chars().filter(|c| c.is_whitespace()).count(),
    };
    spend(pieces.saturating_mul(32).saturating_add(text.len()))
}

/// Python's methods on values that have none of their own.
pub(super) fn method(state: &State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    args.iter().try_for_each(read_all)?;
    match (value.as_str(), name) {
        (Some(text), "replace") => {
            if let [from, to, ..] = args
                && let (Some(from), Some(to)) = (from.as_str(), to.as_str())
            {
                environment::pay_for_replacing(text, from, to)?;
            }
        }
        (Some(joiner), "join") => {
            let [items] = args else { return Err(Error::new(ErrorKind::InvalidOperation, "join takes one list")) };
            return environment::join(items, Some(joiner.to_owned()), Rest(Vec::new())).map(Value::from);
        }
        (Some(format), "format") => {
            // A width or a precision of many digits asks for that much padding.
            let numbers = format.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty());
            let widest = numbers.map(|run| run.parse().unwrap_or(usize::MAX)).max().unwrap_or(0);
            let mut longest = 0;
            for arg in args {
                longest = longest.max(python::str_of(arg)?.len());
            }
            let fields = format.matches('{').count();
            spend(format.len().saturating_add(fields.saturating_mul(widest.saturating_add(longest))))?;
        }
        (Some(text), "split") => pay_for_pieces(text, args.first())?,
        (Some(text), "splitlines") => pay_for_pieces(text, None)?,
        // The library's own counts the empty text without end.
        (Some(text), "count") => {
            look(text.len())?;
            let [what] = args else { return Err(Error::new(ErrorKind::InvalidOperation, "count takes one text")) };
            let what = what.as_str().ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "count takes a text"))?;
            return Ok(Value::from(text.matches(what).count()));
        }
        (Some(text), _) => {
            budget::spend(text.len())?;
            if let ("strip" | "lstrip" | "rstrip", [chars]) = (name, args) {
                pay_for_trimming(value, chars)?;
            }
        }
        (None, "count") => read_all(value)?,
        _ => {}
    }
    let result = settle(unknown_method_callback(state, value, name, args)?)?;
    if value.kind() == ValueKind::Map && matches!(name, "keys" | "values" | "items") {
        read_items(&result)?;
    }
    keep(&result)?;
    Ok(result)
}
