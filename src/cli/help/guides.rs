//! What the help of each command says beside its flags: the group that it belongs to, its page, and examples.

/// The commands by what they are for, in the order in which a newcomer needs them.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("Try", &["demo", "sandbox"]),
    ("Set up and run", &["init", "check", "run"]),
    (
        "See",
        &["validate", "plan", "review", "status", "wait", "profile"],
    ),
    (
        "Change, by a commit",
        &[
            "migrate",
            "evacuate",
            "rebalance",
            "shift",
            "rollout",
            "suspend",
            "failover",
        ],
    ),
    (
        "Control an intent, by a commit",
        &["approve", "assume", "pause", "resume", "abort"],
    ),
    ("Other", &["schema", "completions", "version"]),
];

/// What is added to the help of one command.
#[derive(Clone, Copy, Debug)]
pub struct Guide {
    /// The words after `cutover`; none: the help of the program itself.
    pub command: &'static [&'static str],
    /// A page of the repository, with the heading that is meant.
    pub page: &'static str,
    pub examples: &'static [Example],
}

/// A command line to copy.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// What it does: a sentence in the imperative, without a full stop.
    pub what: &'static str,
    pub line: &'static str,
}

const fn guide(command: &'static [&'static str], page: &'static str, examples: &'static [Example]) -> Guide {
    Guide {
        command,
        page,
        examples,
    }
}

const fn example(what: &'static str, line: &'static str) -> Example {
    Example { what, line }
}

/// One entry for the program and for each of its commands. Names are those of the repository that `cutover init` writes.
pub const GUIDES: &[Guide] = &[
    guide(
        &[],
        "docs/tutorial.md",
        &[
            example(
                "See a stateful job move between clusters, with nothing but this program",
                "cutover demo move",
            ),
            example("Write a repository to start from", "cutover init fleet"),
            example(
                "Let the reconciler follow it",
                "cutover run --repo fleet.git --kubeconfig karmada.kubeconfig",
            ),
            example(
                "Move a workload with its state",
                "cutover migrate orders --to west --push",
            ),
        ],
    ),
    guide(
        &["demo"],
        "docs/tutorial.md",
        &[
            example("Play all chapters", "cutover demo"),
            example(
                "Play a plain move and one that is rolled back",
                "cutover demo move upgrade",
            ),
            example(
                "Play one chapter and leave everything running, for git and kubectl",
                "cutover demo move --keep",
            ),
        ],
    ),
    guide(
        &["sandbox"],
        "docs/reference/sandbox.md",
        &[
            example(
                "Serve a control plane with the members east, west and north",
                "cutover sandbox --dir sandbox",
            ),
            example(
                "Choose the port and the members",
                "cutover sandbox --port 8443 --members eu-1,eu-2",
            ),
        ],
    ),
    guide(
        &["init"],
        "docs/how-to/install.md#1-prepare-the-karmada-api-server",
        &[
            example("Write a repository to start from", "cutover init fleet"),
            example(
                "Install the CRDs and the admission fence",
                "cutover init --cluster --kubeconfig karmada.kubeconfig",
            ),
            example(
                "The same, for a reconciler that runs as another user",
                "cutover init --cluster --reconciler system:serviceaccount:cutover-system:cutover",
            ),
        ],
    ),
    guide(
        &["check"],
        "docs/how-to/install.md#5-see-that-it-runs",
        &[
            example("Check the control plane that kubectl uses", "cutover check"),
            example(
                "Check the repository, too",
                "cutover check --repo https://git.example.com/shop/fleet.git --git-token-file token",
            ),
            example("Write the result for a program", "cutover check -o json"),
        ],
    ),
    guide(
        &["run"],
        "docs/how-to/operate.md#run",
        &[
            example(
                "Follow the branch main of a repository",
                "cutover run --repo https://git.example.com/shop/fleet.git --git-token-file token",
            ),
            example(
                "Sync once and end, for cron and CI",
                "cutover run --once --repo fleet.git",
            ),
            example(
                "Hear webhooks and serve metrics",
                "cutover run --repo fleet.git --webhook-listen 0.0.0.0:8080 --webhook-secret-file secret \
                 --metrics-addr 0.0.0.0:9090",
            ),
        ],
    ),
    guide(
        &["validate"],
        "docs/reference/checks.md",
        &[
            example("Check the repository in this directory", "cutover validate"),
            example(
                "Compare it with a branch, too",
                "cutover validate --base origin/main",
            ),
            example("Annotate a pull request", "cutover validate -o github"),
        ],
    ),
    guide(
        &["plan"],
        "docs/reference/plan.md",
        &[
            example(
                "Show what a push of the commit that is checked out would change",
                "cutover plan",
            ),
            example(
                "Show what a branch changes",
                "cutover plan --revision origin/main...HEAD",
            ),
            example(
                "Exit with 2 when there are changes",
                "cutover plan --detailed-exitcode",
            ),
        ],
    ),
    guide(
        &["review"],
        "docs/how-to/integrate.md#review-pull-requests",
        &[
            example(
                "Report on a branch",
                "cutover review --revision origin/main...HEAD",
            ),
            example(
                "Report without a control plane",
                "cutover review --offline --revision origin/main...HEAD",
            ),
            example(
                "Comment on the pull request of this workflow",
                "cutover review -o github",
            ),
        ],
    ),
    guide(
        &["status"],
        "docs/how-to/migrate.md#watch-a-migration",
        &[
            example("Show all intents, and why they wait", "cutover status"),
            example("Follow one of them", "cutover status orders-to-west --watch"),
            example(
                "Fail a script while anything is wrong or waits for a person",
                "cutover status --exit-status",
            ),
            example(
                "Read the status branch of this clone, without a control plane",
                "cutover status --recorded",
            ),
        ],
    ),
    guide(
        &["wait"],
        "docs/how-to/migrate.md#watch-a-migration",
        &[
            example("Wait until a migration has ended", "cutover wait orders-to-west"),
            example(
                "Wait for a phase, ten minutes at most",
                "cutover wait orders-to-west --for Verify --timeout 10m",
            ),
            example(
                "Say which of several intents of one name is meant",
                "cutover wait shop/storefront --kind Rollout",
            ),
        ],
    ),
    guide(
        &["migrate"],
        "docs/how-to/migrate.md",
        &[
            example(
                "Show the file that asks for a move",
                "cutover migrate orders --to west --dry-run",
            ),
            example("Commit it and push", "cutover migrate orders --to west --push"),
            example(
                "Stop before the source is stopped, until a person approves",
                "cutover migrate flinkdeployment/orders --to west --approve-before Capture",
            ),
            example(
                "Begin on a weekend only",
                "cutover migrate orders --to west --daily Sat,Sun@22:00-05:30",
            ),
        ],
    ),
    guide(
        &["evacuate"],
        "docs/how-to/evacuate-and-rebalance.md",
        &[
            example(
                "Show the file that asks for an empty cluster",
                "cutover evacuate east --dry-run",
            ),
            example(
                "Move only Flink jobs, two at a time",
                "cutover evacuate east --kind FlinkDeployment --max-parallel 2",
            ),
            example(
                "Look at the list of moves before the first one",
                "cutover evacuate east --approve-before",
            ),
        ],
    ),
    guide(
        &["rebalance"],
        "docs/how-to/evacuate-and-rebalance.md#rebalance-workloads",
        &[
            example("Only report what would move", "cutover rebalance --report-only"),
            example(
                "Rebalance once, in one namespace",
                "cutover rebalance --namespace shop --tolerance 10",
            ),
        ],
    ),
    guide(
        &["shift"],
        "docs/how-to/shift-replicas.md",
        &[
            example(
                "Move one replica after the other",
                "cutover shift deploy/storefront --from east --to west",
            ),
            example(
                "Move half of them, wait for an approval, move the rest",
                "cutover shift deploy/storefront --from east --to west --percentages 50,100 --approve-before 50",
            ),
        ],
    ),
    guide(
        &["rollout"],
        "docs/how-to/roll-out.md",
        &[
            example(
                "Let changes go cluster by cluster",
                "cutover rollout deploy/storefront --order north,west,east",
            ),
            example(
                "Let them go in waves, and undo them when one fails",
                "cutover rollout storefront --wave north=10m --wave west,east --on-failure undo",
            ),
            example(
                "Go back to the revision before",
                "cutover rollout undo storefront --push",
            ),
            example(
                "Roll out every change of all Deployments",
                "cutover rollout policy deployments --select deploy",
            ),
        ],
    ),
    guide(
        &["rollout", "undo"],
        "docs/how-to/roll-out.md#undo-a-rollout",
        &[
            example(
                "Go back to the last revision that every cluster had",
                "cutover rollout undo storefront",
            ),
            example(
                "Go back to another one",
                "cutover rollout undo shop/storefront --to 3f9c2a1 --push",
            ),
        ],
    ),
    guide(
        &["rollout", "follow"],
        "docs/how-to/roll-out.md#undo-a-rollout",
        &[
            example("Follow Git again", "cutover rollout follow storefront --push"),
            example(
                "Follow Git again with one workload of a policy",
                "cutover rollout follow deployments --workload deploy/storefront",
            ),
        ],
    ),
    guide(
        &["rollout", "retry"],
        "docs/how-to/roll-out.md#when-something-goes-wrong",
        &[
            example(
                "Try a halted rollout again",
                "cutover rollout retry storefront --push",
            ),
            example(
                "Try one workload of a policy again",
                "cutover rollout retry deployments --workload deploy/storefront",
            ),
        ],
    ),
    guide(
        &["rollout", "policy"],
        "docs/how-to/roll-out.md#roll-out-many-workloads",
        &[
            example(
                "Roll out every change of all Deployments, one cluster first",
                "cutover rollout policy deployments --select deploy --wave north=10m --wave west,east",
            ),
            example(
                "Select by labels",
                "cutover rollout policy shop --select deploy,sts --selector app=storefront --dry-run",
            ),
        ],
    ),
    guide(
        &["suspend"],
        "docs/how-to/suspend.md",
        &[
            example(
                "Keep changes of a workload from one cluster",
                "cutover suspend deploy/storefront --cluster west --reason 'disks are replaced'",
            ),
            example(
                "End by itself after two hours",
                "cutover suspend orders --for 2h --reason 'month end'",
            ),
            example(
                "Suspend all that a policy selects",
                "cutover suspend pp/storefront --reason 'release freeze' --push",
            ),
        ],
    ),
    guide(
        &["failover"],
        "docs/how-to/fail-over.md#fail-over-now",
        &[
            example(
                "Fail over now",
                "cutover failover orders --to west --reason 'east is on fire' --push",
            ),
            example(
                "Show what would be committed",
                "cutover failover flinkdeployment/orders --to west --reason 'a drill' --dry-run",
            ),
        ],
    ),
    guide(
        &["approve"],
        "docs/how-to/migrate.md#require-approvals",
        &[
            example(
                "Let an intent go on that waits for an approval",
                "cutover approve orders-to-west --push",
            ),
            example(
                "Approve a phase before it is reached",
                "cutover approve orders-to-west --phase Capture",
            ),
            example(
                "Let the second wave of a rollout begin",
                "cutover approve storefront --wave 2 --push",
            ),
        ],
    ),
    guide(
        &["assume"],
        "docs/how-to/migrate.md#answer-when-a-migration-cannot-see-something",
        &[
            example(
                "Vouch that nothing in a lost cluster can write",
                "cutover assume orders-to-west stopped east --push",
            ),
            example(
                "Go on from the state that a cluster has",
                "cutover assume orders-to-west from east",
            ),
        ],
    ),
    guide(
        &["pause"],
        "docs/how-to/migrate.md#control-a-migration",
        &[
            example("Stop before the next step", "cutover pause orders-to-west --push"),
            example(
                "Give the reason in the commit",
                "cutover pause shop/orders-to-west -m 'wait for the month end'",
            ),
        ],
    ),
    guide(
        &["resume"],
        "docs/how-to/migrate.md#control-a-migration",
        &[
            example(
                "Let a paused intent go on",
                "cutover resume orders-to-west --push",
            ),
            example("End a suspension", "cutover resume suspend-storefront --push"),
        ],
    ),
    guide(
        &["abort"],
        "docs/how-to/migrate.md#control-a-migration",
        &[
            example("Roll a migration back", "cutover abort orders-to-west --push"),
            example(
                "Say which of several intents of one name is meant",
                "cutover abort susp/storefront --namespace shop",
            ),
            example(
                "Roll one workload of a policy back",
                "cutover abort deployments --workload deploy/storefront --push",
            ),
        ],
    ),
    guide(
        &["profile"],
        "docs/how-to/teach-your-operator.md",
        &[
            example("See which kinds can be moved, and how", "cutover profile list"),
            example(
                "Try a profile on an object of a cluster",
                "cutover profile test -f counter.yaml",
            ),
        ],
    ),
    guide(
        &["profile", "list"],
        "docs/reference/profiles.md",
        &[
            example(
                "Built-in ones, and those of this repository",
                "cutover profile list",
            ),
            example("The same for a program", "cutover profile list -o json"),
        ],
    ),
    guide(
        &["profile", "show"],
        "docs/reference/profiles.md",
        &[
            example(
                "Begin one of your own with another one",
                "cutover profile show statefulset",
            ),
            example(
                "By the kind that it is for",
                "cutover profile show FlinkDeployment",
            ),
        ],
    ),
    guide(
        &["profile", "explain"],
        "docs/reference/profiles.md",
        &[
            example(
                "What a profile does, in sentences",
                "cutover profile explain flink",
            ),
            example(
                "By the kind that it is for",
                "cutover profile explain FlinkDeployment",
            ),
        ],
    ),
    guide(
        &["profile", "test"],
        "docs/how-to/teach-your-operator.md",
        &[
            example(
                "What each expression sees in an object, and says",
                "cutover profile test -f running.yaml",
            ),
            example(
                "What would be written to stop it",
                "cutover profile test -f running.yaml --as stop",
            ),
            example(
                "What would be written to start it from a state",
                "cutover profile test -f stopped.yaml --as start --handle s3://bucket/savepoint-1",
            ),
        ],
    ),
    guide(
        &["schema"],
        "docs/reference/sync.md",
        &[
            example("List what has a schema", "cutover schema"),
            example(
                "Print the schema of a kind, for an editor",
                "cutover schema migration",
            ),
            example("Write all schemas and CRDs", "cutover schema --dir generated"),
        ],
    ),
    guide(
        &["completions"],
        "docs/how-to/install.md#complete-commands-in-a-shell",
        &[
            example("Print the script for a shell", "cutover completions bash"),
            example(
                "Print one that asks the repository for names",
                "cutover completions zsh --dynamic",
            ),
        ],
    ),
    guide(
        &["version"],
        "docs/how-to/install.md#supported-versions",
        &[
            example("Print the version and what it is tested with", "cutover version"),
            example("Print it for a program", "cutover version -o json"),
        ],
    ),
];
