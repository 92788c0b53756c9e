//! Texts to vectors: embeddings, hidden states, scores of a classification head.
//!
//! A text is read whole, in one step. Texts are sorted by length and packed, one after the other without padding, until
//! a step is full; no row sees a row of another text.

use crate::Error;
use crate::load::{DEFAULT_CONTEXT, LoadOptions, Opened};
use akunu_arch::{Model, Pooling};
use akunu_formats::ModelFile;
use akunu_plan::backend::{BoundProgram, Loaded, Want};
use akunu_plan::{Output, RowVars, StepLayout, build};
use akunu_text::{Encode, Tokenizer};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// What to read out of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// One vector, pooled as said, or as the file says, or else as such models mostly are.
    Embedding(Option<Pooling>),
    /// The last hidden state of every token.
    Hidden,
    /// What the classification head says.
    Scores,
}

/// A text, or a pair of texts, as tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// What the model reads, special tokens included.
    pub tokens: Vec<u32>,
    /// Where the second text of a pair begins; the number of tokens where there is none.
    pub second: usize,
}

impl From<Vec<u32>> for Text {
    fn from(tokens: Vec<u32>) -> Text {
        Text { second: tokens.len(), tokens }
    }
}

/// What to do with a text of more tokens than the model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLong {
    /// It is an error.
    Refuse,
    /// Drops its end, or that of the second of a pair; special tokens stay.
    Cut,
}

/// Makes of texts what a model reads, apart from the model: it goes on while that computes.
#[derive(Clone)]
pub struct TextEncoder {
    tokenizer: Option<Tokenizer>,
    path: Arc<str>,
    vocab: usize,
    /// Tokens of a text, at most.
    context: usize,
    /// What it is asked about a pair; see [`Model::question`].
    question: Option<Arc<str>>,
}

/// A loaded model that reads texts.
pub struct Embedder {
    model: Model,
    encoder: TextEncoder,
    loaded: Box<dyn Loaded>,
    reading: Reading,
    pooling: Pooling,
    /// Values that come out for a text or a token.
    width: usize,
    /// Rows of a step, unless one text has more.
    rows: usize,
}

impl Embedder {
    /// Loads a GGUF file, a safetensors file, or an HF directory.
    pub fn load(path: &Path, options: LoadOptions, reading: Reading) -> Result<Embedder, Error> {
        Self::from_file(ModelFile::open_within(path, options.limits)?, options, reading)
    }

    /// Of the options, those about a KV cache do not matter.
    pub fn from_file(file: ModelFile, options: LoadOptions, reading: Reading) -> Result<Embedder, Error> {
        let mut opened = Opened::read(file, &options)?;
        // More positions than the model has a table for, or was made for, mean nothing to it.
        let context = options.context.unwrap_or(DEFAULT_CONTEXT).min(opened.model.config.context).max(1);
        opened.model.for_context(context);
        if reading == Reading::Scores && opened.model.config.classes == 0 && opened.model.descriptor.question.is_some()
        {
            opened.answer_yes_or_no()?;
        }
        let model = &opened.model;
        let config = &model.config;
        let asked = match reading {
            Reading::Embedding(pooling) => pooling,
            Reading::Hidden | Reading::Scores => None,
        };
        // A causal model's last token is the only one that saw all.
        let usual = if model.descriptor.causal { Pooling::Last } else { Pooling::Mean };
        let pooling = match reading {
            Reading::Scores => config.head_pooling,
            _ => asked.or(config.pooling).unwrap_or(usual),
        };
        let (output, width) = match reading {
            Reading::Embedding(_) if pooling == Pooling::Mean => (Output::Mean, config.embedding_width()),
            Reading::Embedding(_) => (Output::Picked, config.embedding_width()),
            Reading::Hidden => (Output::Hidden, config.dim),
            Reading::Scores => (Output::Scores, config.classes),
        };
        let backend = options.device.open(&options)?;
        let prefers = backend.preferences();
        let rows = options.chunk.unwrap_or(prefers.prefill_chunk).clamp(1, 1 << 16);
        let max_rows = rows.max(context);
        let program = build(model, &opened.file, options.program(&prefers, output, (max_rows, max_rows), true))?;
        let programs = vec![BoundProgram { bound: backend.bind(&program)?, program: Arc::new(program) }];
        let steps = StepLayout {
            max_rows,
            max_outputs: max_rows,
            groups: 0,
            sequences: max_rows,
            table_blocks: 0,
            max_chain: 0,
        };
        let loaded = opened.load(backend, programs, steps, Vec::new())?;
        let (file, model, tokenizer) = opened.parts()?;
        let path = file.path().display().to_string().into();
        let question = model.question(&file).filter(|_| reading == Reading::Scores).map(Arc::from);
        let encoder = TextEncoder { tokenizer, path, vocab: model.config.vocab, context, question };
        Ok(Embedder { model, encoder, loaded, reading, pooling, width, rows })
    }

    /// The architecture and the configuration that the file gave.
    #[doc(hidden)]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Values that come out for a text or, of hidden states, for a token.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How the rows of a text become one vector.
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// Tokens a text can have.
    pub fn context(&self) -> usize {
        self.encoder.context
    }

    /// Tokens of texts that are read in one step; a text of more has a step of its own.
    pub fn step_tokens(&self) -> usize {
        self.rows
    }

    /// What makes its texts of strings.
    pub fn encoder(&self) -> &TextEncoder {
        &self.encoder
    }

    /// See [`TextEncoder::text`].
    pub fn text(&self, text: &str, too_long: TooLong) -> Result<Text, Error> {
        self.encoder.text(text, too_long)
    }

    /// See [`TextEncoder::pair`].
    pub fn pair(&self, a: &str, b: &str, too_long: TooLong) -> Result<Text, Error> {
        self.encoder.pair(a, b, too_long)
    }

    /// Reads texts; `each` gets the number of a text and its vector, in no particular order. Of hidden states it gets
    /// those of all tokens of a text, one after the other.
    pub fn read(&mut self, texts: &[Text], mut each: impl FnMut(usize, &[f32])) -> Result<(), Error> {
        self.read_while(texts, |text, values| {
            each(text, values);
            ControlFlow::Continue(())
        })
    }

    /// As [`Self::read`], as long as `each` wants more.
    pub fn read_while(
        &mut self,
        texts: &[Text],
        mut each: impl FnMut(usize, &[f32]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        texts.iter().try_for_each(|text| self.encoder.check(text))?;
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(texts[i].tokens.len()));
        let mut waiting = &order[..];
        while !waiting.is_empty() {
            let (mut count, mut rows) = (0, 0);
            while let Some(&next) = waiting.get(count)
                && (count == 0 || rows + texts[next].tokens.len() <= self.rows)
            {
                rows += texts[next].tokens.len();
                count += 1;
            }
            let (now, rest) = waiting.split_at(count);
            waiting = rest;
            self.step(texts, now)?;
            let every = self.reading == Reading::Hidden;
            let outputs = now.iter().flat_map(|&i| vec![i; if every { texts[i].tokens.len() } else { 1 }]);
            for (output, text) in outputs.enumerate() {
                let values = self.loaded.output(output);
                if !values.iter().all(|v| v.is_finite()) {
                    return Err(Error::NotFinite);
                }
                if each(text, values).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// One step over the texts that `now` numbers.
    fn step(&mut self, texts: &[Text], now: &[usize]) -> Result<(), Error> {
        let mut vars = self.loaded.steps();
        let rows: usize = now.iter().map(|&i| texts[i].tokens.len()).sum();
        let outputs = if self.reading == Reading::Hidden { rows } else { now.len() };
        vars.begin(rows, outputs);
        let (mut row, mut output) = (0, 0);
        for (sequence, &i) in now.iter().enumerate() {
            let Text { tokens, second } = &texts[i];
            let length = tokens.len();
            for (position, (&token, vars)) in tokens.iter().zip(&mut vars.rows_mut()[row..]).enumerate() {
                *vars = RowVars {
                    token,
                    position: position as u32,
                    sequence: sequence as u32,
                    length: length as u32,
                    segment: u32::from(position >= *second),
                    ..RowVars::default()
                };
            }
            let picked = match (self.reading, self.pooling) {
                (Reading::Hidden, _) => row..row + length,
                (_, Pooling::Last) => row + length - 1..row + length,
                _ => row..row + 1,
            };
            for at in picked {
                vars.outputs_mut()[output] = at as u32;
                output += 1;
            }
            row += length;
        }
        Ok(self.loaded.submit(0, 1, Want::All)?)
    }
}

impl TextEncoder {
    /// The model's, where it has one.
    pub fn tokenizer(&self) -> Result<&Tokenizer, Error> {
        self.tokenizer.as_ref().ok_or_else(|| Error::NoTokenizer { path: self.path.to_string() })
    }

    /// The tokens of a text, with the special ones that the model wants around it.
    pub fn text(&self, text: &str, too_long: TooLong) -> Result<Text, Error> {
        let tokenizer = self.tokenizer()?;
        let tokens = tokenizer.encode(text, Encode { add_special: true, parse_special: true })?;
        let tokens = self.fit(tokens, tokenizer.frame().1, too_long)?;
        Ok(tokens.into())
    }

    /// The tokens of two texts, as a model reads them that compares them: `[before] a [between] b [after]`, or the question about
    /// them.
    pub fn pair(&self, a: &str, b: &str, too_long: TooLong) -> Result<Text, Error> {
        let tokenizer = self.tokenizer()?;
        let bare = Encode { add_special: false, parse_special: true };
        if let Some((until, rest)) = self.question.as_ref().and_then(|question| question.split_once("{document}")) {
            let rest = tokenizer.encode(rest, bare)?;
            let tokens = tokenizer.encode(&format!("{}{b}", until.replacen("{query}", a, 1)), bare)?;
            return Ok(self.fit([tokens, rest.clone()].concat(), &rest, too_long)?.into());
        }
        let (before, after) = tokenizer.frame();
        let mut tokens = [before, &tokenizer.encode(a, bare)?, tokenizer.between()].concat();
        let second = tokens.len();
        if second + after.len() > self.context {
            return Err(Error::TextTooLong { tokens: second + after.len(), context: self.context });
        }
        tokens.extend(tokenizer.encode(b, bare)?);
        tokens.extend(after);
        Ok(Text { tokens: self.fit(tokens, after, too_long)?, second })
    }

    /// `tokens` within the context; `after` is how they end.
    fn fit(&self, mut tokens: Vec<u32>, after: &[u32], too_long: TooLong) -> Result<Vec<u32>, Error> {
        let (count, context) = (tokens.len(), self.context);
        if count > context {
            if too_long == TooLong::Refuse || after.len() >= context {
                return Err(Error::TextTooLong { tokens: count, context });
            }
            tokens.truncate(context - after.len());
            tokens.extend(after);
        }
        Ok(tokens)
    }

    /// Errs where the model cannot read a text.
    pub fn check(&self, text: &Text) -> Result<(), Error> {
        let Self { vocab, context, .. } = *self;
        if text.tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if text.tokens.len() > context {
            return Err(Error::TextTooLong { tokens: text.tokens.len(), context });
        }
        match text.tokens.iter().find(|token| **token as usize >= vocab) {
            Some(&token) => Err(Error::Token { token, vocab }),
            None => Ok(()),
        }
    }
}

/// Makes a vector as long as 1; one of zeros stays.
pub fn normalize(vector: &mut [f32]) {
    let square: f64 = vector.iter().map(|v| f64::from(*v).powi(2)).sum();
    if square > 0.0 {
        let factor = square.sqrt().recip();
        vector.iter_mut().for_each(|v| *v = (f64::from(*v) * factor) as f32);
    }
}
