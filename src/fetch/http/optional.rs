//! Content that may be missing, such as signatures, from several addresses.

use url::Url;

use super::requests::{Http, TRIES_OF_SEVERAL};
use crate::FetchError;
use crate::answers::Answers;

impl Http {
    /// Tries addresses in order for content that may be missing, and returns the first success. A server that could
    /// not be reached earlier in this run is not asked again, unless it is the only one.
    ///
    /// # Errors
    /// The error of the last address; but if that did not answer, and an earlier one answered that it does not have
    /// the content, the answer of the earlier one.
    pub(crate) async fn first_answer<A, T, F>(
        &self,
        label: &str,
        addresses: Vec<(Url, A)>,
        mut attempt: impl FnMut((Url, A), u32) -> F,
    ) -> Result<T, FetchError>
    where
        F: Future<Output = Result<T, FetchError>>,
    {
        if addresses.len() < 2 {
            return self.first_good(label, addresses, attempt).await;
        }
        let mut answers = Answers::default();
        for (site, address) in addresses {
            if let Err(error) = self.check_reach(label, &site) {
                answers.failed(error);
                continue;
            }
            match attempt((site.clone(), address), TRIES_OF_SEVERAL).await {
                Err(error) if error.is_of_a_server() => {
                    self.record_reach(&site, &error);
                    if !error.is_missing() {
                        self.events().note(error.to_string());
                    }
                    answers.failed(error);
                }
                result => return result,
            }
        }
        Err(answers.into_error(label))
    }
}
