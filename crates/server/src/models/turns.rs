//! Requests whose texts are read, and which of them a step reads: each request gives one in turn.

use crate::problem::Problem;
use akunu::{Error, Text};
use tokio::sync::oneshot::Sender;

/// What a request's texts become, in their order.
pub type Vectors = Vec<Vec<f32>>;

/// A request, as far as it has been read.
pub struct Request {
    texts: Vec<Text>,
    vectors: Vectors,
    /// How many of its texts steps have taken.
    taken: usize,
    fault: Option<Problem>,
    done: Sender<Result<Vectors, Problem>>,
}

impl Request {
    pub fn new(texts: Vec<Text>, done: Sender<Result<Vectors, Problem>>) -> Self {
        Self { vectors: vec![Vec::new(); texts.len()], texts, taken: 0, fault: None, done }
    }
}

/// Requests in the order of their turns.
#[derive(Default)]
pub struct Turns(Vec<Request>);

impl Turns {
    /// Takes what has come, and drops what nobody waits for any more; false where nothing is left.
    pub fn admit(&mut self, come: &mut Vec<Request>) -> bool {
        self.0.append(come);
        self.0.retain(|request| !request.done.is_closed());
        !self.0.is_empty()
    }

    /// Reads one step's texts: as many as have `room` tokens together, or a single one.
    pub fn step(&mut self, room: usize, mut read: impl FnMut(&[Text], &mut [Vec<f32>]) -> Result<(), Error>) {
        let chosen = self.choose(room);
        let texts: Vec<Text> = chosen.iter().map(|&(at, i)| std::mem::take(&mut self.0[at].texts[i])).collect();
        let mut vectors = vec![Vec::new(); texts.len()];
        if read(&texts, &mut vectors).is_err() {
            // Whose fault it is shows where each is read alone.
            for (i, &(at, _)) in chosen.iter().enumerate() {
                let alone = read(&texts[i..=i], &mut vectors[i..=i]);
                self.0[at].fault = self.0[at].fault.take().or(alone.err().map(Problem::from));
            }
        }
        for (&(at, i), vector) in chosen.iter().zip(vectors) {
            self.0[at].vectors[i] = vector;
        }
        // The turn is that of the request after the last one that gave a text.
        self.0.rotate_left(chosen.last().map_or(0, |last| last.0 + 1));
        let is_done = |request: &mut Request| request.fault.is_some() || request.taken == request.texts.len();
        for request in self.0.extract_if(.., is_done) {
            // Nobody may wait any more.
            let _ = request.done.send(request.fault.map_or(Ok(request.vectors), Err));
        }
    }

    /// Requests and their texts, one after the other until one does not fit.
    fn choose(&mut self, mut room: usize) -> Vec<(usize, usize)> {
        let mut chosen = Vec::new();
        loop {
            let before = chosen.len();
            for (at, request) in self.0.iter_mut().enumerate() {
                let Some(text) = request.texts.get(request.taken) else { continue };
                if !chosen.is_empty() && text.tokens.len() > room {
                    return chosen;
                }
                room = room.saturating_sub(text.tokens.len());
                chosen.push((at, request.taken));
                request.taken += 1;
            }
            if chosen.len() == before {
                return chosen;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot::{Receiver, channel};

    /// A request whose texts have so many tokens, all of them `token`.
    fn request(token: u32, lengths: &[usize]) -> (Request, Receiver<Result<Vectors, Problem>>) {
        let (done, vectors) = channel();
        (Request::new(lengths.iter().map(|n| vec![token; *n].into()).collect(), done), vectors)
    }

    /// Reads all steps of four tokens; a text's vector is its tokens' number and its length. Which tokens each step read.
    fn read(turns: &mut Turns) -> Vec<Vec<u32>> {
        let mut steps = Vec::new();
        while turns.admit(&mut Vec::new()) {
            turns.step(4, |texts, vectors| {
                steps.push(texts.iter().map(|text| text.tokens[0]).collect());
                if texts.iter().any(|text| text.tokens[0] == 9) {
                    return Err(Error::NotFinite);
                }
                for (text, vector) in texts.iter().zip(vectors) {
                    *vector = vec![text.tokens[0] as f32, text.tokens.len() as f32];
                }
                Ok(())
            });
        }
        steps
    }

    #[test]
    fn requests_take_turns_and_a_long_one_delays_nobody() {
        let mut turns = Turns::default();
        let ((long, mut all), (short, mut one)) = (request(1, &[2, 2, 2, 7, 1]), request(2, &[1]));
        turns.admit(&mut vec![long, short]);
        assert_eq!(read(&mut turns), [vec![1, 2], vec![1, 1], vec![1], vec![1]]);
        let lengths = [2.0, 2.0, 2.0, 7.0, 1.0].map(|n| vec![1.0, n]);
        assert_eq!(all.try_recv().unwrap().unwrap(), lengths);
        assert_eq!(one.try_recv().unwrap().unwrap(), [[2.0, 1.0]]);
    }

    #[test]
    fn what_does_not_fit_is_first_in_the_next_step() {
        let mut turns = Turns::default();
        let requests = [request(1, &[3, 3]), request(2, &[3]), request(3, &[1, 1])];
        let (mut requests, _waiting): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
        turns.admit(&mut requests);
        assert_eq!(read(&mut turns), [vec![1], vec![2, 3], vec![1, 3]]);
    }

    #[test]
    fn who_went_away_is_not_read_and_a_fault_is_that_of_one() {
        let mut turns = Turns::default();
        let ((gone, left), (bad, mut fault), (good, mut read_well)) =
            (request(1, &[1]), request(9, &[1]), request(3, &[1, 2]));
        drop(left);
        turns.admit(&mut vec![gone, bad, good]);
        assert_eq!(read(&mut turns), [vec![9, 3, 3], vec![9], vec![3], vec![3]]);
        assert!(fault.try_recv().unwrap().is_err());
        assert_eq!(read_well.try_recv().unwrap().unwrap(), [[3.0, 1.0], [3.0, 2.0]]);
    }
}
