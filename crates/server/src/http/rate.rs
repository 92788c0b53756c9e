//! How often one may ask: a bucket of requests for every key or address, filled as time goes by.

use crate::problem::{Kind, Problem};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// The place of the key among those that are known.
    Key(usize),
    Address(IpAddr),
}

/// Who has asked lately.
pub struct Rates {
    /// Requests a minute; `None`: as many as come.
    rate: Option<u32>,
    buckets: Mutex<HashMap<Who, Bucket>>,
}

struct Bucket {
    left: f64,
    filled: Instant,
}

/// Buckets that are remembered; full ones need not be.
const MOST: usize = 1 << 16;

impl Rates {
    pub fn new(rate: Option<u32>) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Takes a request out of a bucket.
    pub fn take(&self, who: Who) -> Result<(), Problem> {
        self.take_at(who, Instant::now())
    }

    fn take_at(&self, who: Who, now: Instant) -> Result<(), Problem> {
        let Some(rate) = self.rate else { return Ok(()) };
        let (most, a_second) = (f64::from(rate), f64::from(rate) / 60.0);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST && !buckets.contains_key(&who) {
            buckets.retain(|_, b| b.left + now.duration_since(b.filled).as_secs_f64() * a_second < most);
            if buckets.len() >= MOST {
                return Err(Problem::new(Kind::RateLimited, "too many ask at once").retry_after(60));
            }
        }
        let bucket = buckets.entry(who).or_insert(Bucket { left: most, filled: now });
        bucket.left = (bucket.left + now.duration_since(bucket.filled).as_secs_f64() * a_second).min(most);
        bucket.filled = now;
        if bucket.left < 1.0 {
            let wait = ((1.0 - bucket.left) / a_second).ceil() as u64;
            let sentence = format!("more than {rate} requests a minute; try again in {wait} s");
            return Err(Problem::new(Kind::RateLimited, sentence).code("rate_limit_exceeded").retry_after(wait));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_empties_and_fills_again_and_others_have_their_own() {
        let rates = Rates::new(Some(60));
        let (one, other) = (Who::Address([10, 0, 0, 1].into()), Who::Key(0));
        let start = Instant::now();
        for _ in 0..60 {
            rates.take_at(one.clone(), start).unwrap();
        }
        assert_eq!(rates.take_at(one.clone(), start).unwrap_err().retry_after, Some(1));
        rates.take_at(other, start).unwrap();
        rates.take_at(one.clone(), start + Duration::from_secs(1)).unwrap();
        assert!(rates.take_at(one, start + Duration::from_secs(1)).is_err());
    }

    #[test]
    fn strangers_without_end_do_not_take_memory_without_end() {
        let rates = Rates::new(Some(60));
        let start = Instant::now();
        let address = |n: u32| Who::Address(IpAddr::from(n.to_be_bytes()));
        for n in 0..MOST as u32 {
            rates.take_at(address(n), start).unwrap();
        }
        assert!(rates.take_at(address(u32::MAX), start).is_err());
        // A minute later all buckets are full again, and forgotten.
        rates.take_at(address(u32::MAX), start + Duration::from_secs(60)).unwrap();
        assert_eq!(rates.buckets.lock().unwrap().len(), 1);
    }
}
