//! What of a profile doesn't fit its workload's kind as the control plane defines it: told before anything begins.

use super::seen::{NotKnown, Seen};
use crate::api::{Finding, WorkloadProfileSpec};
use crate::profile::{self, Misfit};

/// Returns what keeps a profile from being used. Where the definition can't be read, nothing is: no expression says yes of a field that
/// isn't there, and what has been in use goes on.
pub(super) fn findings(
    profile: &WorkloadProfileSpec,
    misfits: Option<&Seen<Vec<Misfit>>>,
) -> Result<Vec<Finding>, profile::Error> {
    let Some(Ok(misfits)) = misfits.map(Seen::get) else {
        return Ok(Vec::new());
    };
    if misfits.is_empty() {
        return Ok(Vec::new());
    }
    let is_built_in = profile::built_in()?.iter().any(|one| one.spec == *profile);
    let remedy = if is_built_in {
        "install a version of the operator whose CRD has it, or write a WorkloadProfile for the version that is there"
    } else {
        "correct the profile in Git: cutover validate --crds finds the same before a push"
    };
    let findings = misfits.iter().map(|misfit| {
        let hint = match &misfit.hint {
            Some(hint) => format!("{hint}; {remedy}"),
            None => remedy.to_owned(),
        };
        let message = format!("its profile does not fit the CRD: {}", misfit.message);
        Finding::new("ProfileUnfit", message, hint)
    });
    Ok(findings.collect())
}

/// Returns what is said where the definition was asked for and could not be read.
pub(super) fn note(misfits: Option<&Seen<Vec<Misfit>>>) -> Option<String> {
    let NotKnown(why) = misfits?.get().err()?;
    Some(format!("whether its profile fits the CRD is not known: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::Read;

    fn seen(misfits: Vec<Misfit>) -> Seen<Vec<Misfit>> {
        let read = Read { sent: 1, answered: 2 };
        Seen::known(misfits, read)
    }

    fn misfit(hint: Option<&str>) -> Misfit {
        Misfit {
            pointer: "/spec/healthyWhen".to_owned(),
            message: "spec.healthyWhen names status.phaze, which is not a field of Pump.flow.example.org"
                .to_owned(),
            hint: hint.map(str::to_owned),
        }
    }

    #[test]
    fn whoever_brought_the_profile_is_told_what_to_do() {
        let built_in = &profile::built_in().unwrap()[0].spec;
        let mut own = built_in.clone();
        own.healthy_when = "object.status.phaze == 'Up'".to_owned();
        let misfits = seen(vec![misfit(Some("did you mean phase?"))]);
        let of = |profile| findings(profile, Some(&misfits)).unwrap().remove(0);
        for (profile, remedy) in [(built_in, "install a version"), (&own, "correct the profile")] {
            let found = of(profile);
            assert_eq!(found.code, "ProfileUnfit");
            assert_eq!(
                found.message,
                "its profile does not fit the CRD: spec.healthyWhen names status.phaze, which is not a field of Pump.flow.example.org"
            );
            let hint = found.hint.unwrap();
            assert!(
                hint.starts_with("did you mean phase?; ") && hint.contains(remedy),
                "{hint}"
            );
        }
        let without = findings(&own, Some(&seen(vec![misfit(None)]))).unwrap();
        assert!(
            without[0]
                .hint
                .as_ref()
                .unwrap()
                .starts_with("correct the profile")
        );
    }

    #[test]
    fn what_is_not_known_holds_nothing_up_and_is_said() {
        let profile = &profile::built_in().unwrap()[0].spec;
        let unknown = Seen::unknown("it is forbidden");
        assert!(findings(profile, Some(&unknown)).unwrap().is_empty());
        assert_eq!(
            note(Some(&unknown)).unwrap(),
            "whether its profile fits the CRD is not known: it is forbidden"
        );
        for known in [None, Some(&seen(Vec::new()))] {
            assert!(findings(profile, known).unwrap().is_empty());
            assert_eq!(note(known), None);
        }
    }
}
