//! Which phase of which rotation runs.

use std::collections::BTreeSet;

use super::{Rotated, Run};
use kubexm_config::cluster::Etcd;
use kubexm_session::CommandError;
use kubexm_session::begun;
use kubexm_session::begun::{Phase, RotationRecord};
use kubexm_types::Authority;

/// The flag of the API server with which tokens are valid for a year for programs that do not read them again.
const EXTENDS_TOKENS: &str = "service-account-extend-token-expiration";

impl Run<'_> {
    /// Returns the record of the phase that runs now. Writes nothing.
    pub(super) fn begin(
        &self,
        begun: Option<RotationRecord>,
    ) -> Result<RotationRecord, CommandError> {
        let authorities = self.authorities()?;
        let Some(mut record) = begun else {
            if self.options.cancel {
                return Err(CommandError::refused(
                    "cannot cancel a rotation: none has begun",
                ));
            }
            return match self.options.phase {
                None | Some(Phase::Trust) => {
                    let record = self.new_record(authorities);
                    begun::permit(record.operation(), self.cluster, self.state)?;
                    Ok(record)
                }
                Some(phase) => Err(CommandError::refused(format!(
                    "cannot begin a rotation with the phase {phase}"
                ))
                .hint("the first phase is trust")),
            };
        };
        let is_same = match &self.options.rotated {
            Rotated::Cas(named) if named.is_empty() => {
                !record.authorities.contains(&Authority::ServiceAccounts)
            }
            _ => record.authorities == authorities,
        };
        if !is_same {
            return Err(CommandError::refused(format!(
                "another rotation has begun: {}",
                record.standing()
            ))
            .hint(format!("complete it first with {}", record.command())));
        }
        if self.options.cancel {
            if record.phase > Phase::Trust {
                return Err(CommandError::refused(format!(
                    "cannot cancel the {}: the new authority signs since phase 2",
                    record.standing()
                ))
                .hint(format!("complete it with {}", record.command())));
            }
            record.is_cancelled = true;
            return Ok(record);
        }
        if record.is_cancelled {
            return Err(CommandError::refused(format!(
                "the rotation of the {} is being cancelled",
                record.title()
            ))
            .hint(format!("run {} --cancel again", record.command())));
        }
        let next = if record.is_complete {
            record.phase.next().unwrap_or(record.phase)
        } else {
            record.phase
        };
        match self.options.phase {
            Some(phase) if phase != next => Err(CommandError::refused(format!(
                "the next phase is {next}, not {phase}: {}",
                record.standing()
            ))),
            _ => {
                record.is_complete = false;
                record.phase = next;
                Ok(record)
            }
        }
    }

    /// Returns the record of a rotation that begins. A later change of the cluster file does not shorten the validity of tokens
    /// that API servers have issued.
    fn new_record(&self, authorities: BTreeSet<Authority>) -> RotationRecord {
        let flags = &self.cluster.kubernetes.api_server.component.extra_args;
        let extends = flags.get(EXTENDS_TOKENS).is_none_or(|own| own != "false");
        let has_keys = authorities.contains(&Authority::ServiceAccounts);
        RotationRecord {
            extends_tokens: has_keys.then_some(extends),
            ..RotationRecord::new(authorities)
        }
    }

    /// Returns the authorities that the options name.
    fn authorities(&self) -> Result<BTreeSet<Authority>, CommandError> {
        let is_external = matches!(self.cluster.etcd, Etcd::External { .. });
        let named = match &self.options.rotated {
            Rotated::ServiceAccountKey => return Ok([Authority::ServiceAccounts].into()),
            Rotated::Cas(named) => named,
        };
        if named.is_empty() {
            let own = [Authority::Kubernetes, Authority::FrontProxy].into_iter();
            let etcd = (!is_external).then_some(Authority::Etcd);
            return Ok(own.chain(etcd).collect());
        }
        let refused = |what: &str, hint: &str| {
            Err(CommandError::refused(format!("cannot replace the {what}")).hint(hint))
        };
        if is_external && named.contains(&Authority::Etcd) {
            return refused(
                "CA of an etcd of the site: kubexm does not have it",
                "let the site trust both CAs, change etcd.external.caFile, and run kubexm install",
            );
        }
        if named.contains(&Authority::Registry) && self.cluster.registry.external.is_some() {
            return refused(
                "CA of a registry of the site: kubexm does not have it",
                "let the site trust both CAs, change the CA file of the registry in the cluster file, and run kubexm \
                 install",
            );
        }
        Ok(named.clone())
    }
}
