package reproduce

import "context"

// audited is a part of a paper, or a comparison with it, and whether this project has it.
type audited struct {
	part  string
	state string // done, partly or missing
	// test is a test (file and name) or a command that shows it. It may be empty only if the part is missing.
	test string
	note string // why it is not done, or how it differs
}

const (
	done    = "done"
	partly  = "partly"
	missing = "missing"
)

// audit makes the item that lists the parts of a paper.
func audit(parts []audited) func(context.Context, *source) (Item, error) {
	return func(context.Context, *source) (Item, error) {
		item := Item{Title: "the parts of the paper", Columns: []string{"part", "state", "test", "note"},
			Note: "A test is a file and the name of the test; the rest are commands."}
		for _, a := range parts {
			row := Row{"part": a.part, "state": a.state}
			if a.test != "" {
				row["test"] = a.test
			}
			if a.note != "" {
				row["note"] = a.note
			}
			item.Rows = append(item.Rows, row)
		}
		return item, nil
	}
}

func skypilotParts() []audited {
	return []audited{
		{"least cost and least makespan (equations 1 to 3), exact", done,
			"pkg/optimizer/solve_test.go TestCheapestPlanMatchesBruteForce", ""},
		{"cost within a time limit, and the reverse", done,
			"pkg/optimizer/solve_test.go TestBoundedPlansMatchBruteForce", ""},
		{"any combination of cost and time", done, "pkg/optimizer/weights_test.go TestWeightedPlansMatchBruteForce",
			"and `plan --frontier` lists every plan that no other beats"},
		{"cost within a deadline on the recorded workflows, proven within 1 %", partly, "make bench-optimizer",
			"gaps of up to 13 % remain, and of up to 81 % for the makespan within a budget; the plan prints its gap"},
		{"failover: block the place, plan again, try the next", done,
			"internal/sim/testdata/stories/failover.txt aws refuses", ""},
		{"attempts during stock-outs", done, "tradewind-lab reproduce skypilot attempts", ""},
		{"figure 2: interruptions", done, "tradewind-lab reproduce skypilot figure2", ""},
		{"table 1: what the clouds sell", done, "tradewind-lab reproduce skypilot table1", ""},
		{"three applications on one cloud and on all", partly, "tradewind-lab reproduce skypilot applications",
			"they are planned, not run in the simulator; two of the three have an assumed size"},
		{"filters of the catalogue: vCPUs, memory, accelerator, service, type", done,
			"pkg/catalog/search_test.go TestFindMatchesOracle", ""},
		{"filter by the family of a machine or by its processor", done,
			"internal/broker/planner/planner_test.go TestPlanKeepsToFamilyAndProcessor", ""},
		{"listing 1: `Dag`, `Resources`, `set_input`, `>>`", done,
			"clients/python/tests/test_sky.py test_listing_1_is_planned",
			"tradewind.sky in Python; the same job by the builder in Go: ExampleBuilder_vision"},
		{"time estimators", done, "pkg/client/estimate_test.go TestEstimatorDecidesPlan",
			"the client evaluates the function and sends a table"},
		{"a number of instances that the optimizer chooses", done,
			"internal/broker/planner/nodes_test.go TestChosenNodesMatchBruteForce", ""},
	}
}

func wcssiParts() []audited {
	return []audited{
		{"prices as a Markov chain of 24 levels (equations 4 and 5)", done,
			"pkg/market/chain_oracle_test.go TestLearnMatchesDefinition", ""},
		{"bids by dynamic programming", done, "pkg/bidding/bid_test.go TestBidIsExpectedCostOfWaiting", ""},
		{"simple and synchronisation tasks (figure 3)", done,
			"internal/bidding/workflow/bfrc_test.go TestClassifyMatchesFigure3", ""},
		{"steps 1 to 4: the distribution of the deadline", done,
			"internal/bidding/workflow/workflow_test.go TestPoliciesMeetDeadlineAboveLowerBound", ""},
		{"step 5: branches with the same start and end are lowered together", done,
			"internal/bidding/workflow/bfrc_test.go TestScheduleMatchesBruteForce", ""},
		{"deadlines and types change at run time", done,
			"internal/bidding/workflow/bfrc_test.go TestScheduleMatchesBruteForce",
			"`bfrc` when a task begins, `markov` every hour (TestAllocationMatchesBruteForce)"},
		{"a cost of an interruption above 0 (equation 7)", done,
			"internal/bidding/workflow/restart_test.go TestBidFollowsEquation7",
			"`--restart` of `backtest bid` and `backtest workflow`"},
		{"lower bound (equations 9 and 10)", done,
			"internal/bidding/workflow/workflow_test.go TestPathBoundIsTheBestPairOfTypes", ""},
		{"figure 2", done, "tradewind-lab reproduce wcssi figure2", ""},
		{"figure 5", done, "tradewind-lab reproduce wcssi figure5", ""},
		{"figure 6, for each workflow and zone", done, "tradewind-lab reproduce wcssi figure6", ""},
		{"table 4", done, "tradewind-lab reproduce wcssi table4", ""},
		{"sizes of one machine family only", done,
			"internal/lab/backtest/backtest_test.go TestOfTypesKeepsFamiliesAndTypes",
			"`--types m3`; the items above have all types of the data"},
		{"the five steps for live jobs", missing, "",
			"a live job gets the latest end of each task from its plan, and bids as `markov` does"},
		{"never behind BFRC or AIB on the mean of a data set", done, "make bench-bidding",
			"a task may use two types, and time goes to the tasks where it saves most: docs/bidding.md has the table"},
		{"at most 1.025 × the clairvoyant cost on the markets of 2016", partly, "make bench-bidding",
			"1.010 with a deadline of 1.08 times the work, 1.033 with 1.5 times, 1.047 with twice"},
		{"at most 1.06 × the clairvoyant cost on traces with a deadline of 1.25 times the work", done,
			"make bench-bidding", "1.050; with held machines 1.056"},
	}
}

func parsyncParts() []audited {
	return []audited{
		{"partitions, rotation", done, "pkg/parsync/parsync_test.go TestRotationRefreshesDistinctPartitions", ""},
		{"expected conflicts (section 3)", done,
			"internal/lab/windtunnel/model_test.go TestTurnoverConflictsMatchesSimulation", ""},
		{"conflicts by rate, gap, variance and partitions", done,
			"internal/lab/windtunnel/extra_test.go TestExtraSlotsGrowAsInThePaper", ""},
		{"three policies", done, "pkg/parsync/parsync_test.go TestViewTakeFollowsPolicy", ""},
		{"the adaptive policy switches", done, "pkg/parsync/parsync_test.go TestAdaptiveSwitchesAtLimit", ""},
		{"two classes of schedulers", done, "internal/lab/windtunnel/windtunnel_test.go TestThreePhases", ""},
		{"static partition and lock", done, "internal/lab/windtunnel/windtunnel_test.go TestExclusiveSlotsCostTime",
			""},
		{"five phases of load", done, "internal/lab/reproduce/reproduce_test.go TestPoliciesTradeDelayForQuality", ""},
		{"two resource managers", missing, "", "the text of the paper names them, but does not say what they do"},
		{"the real schedulers with 100,000 simulated machines", missing, "make bench-parsync",
			"the broker's real sessions are measured with up to 8 processes and 30 machines; the wind tunnel " +
				"simulates its schedulers"},
	}
}

func aladdinParts() []audited {
	return []audited{
		{"the flow network and its optimum", done,
			"pkg/placement/network_test.go TestSolveIsOptimalOnSmallProblems", ""},
		{"no violation, all containers placed", done, "pkg/placement/network_test.go TestPaperSetting", ""},
		{"priorities outweigh all lower ones (weights)", done,
			"pkg/placement/problem_test.go TestWeightsDominateLowerPriorities", ""},
		{"migration and preemption make room", done, "pkg/placement/makeroom_test.go TestMakeRoomMinimisesLoss", ""},
		{"isomorphism and depth limiting", done, "tradewind-lab reproduce aladdin latency", ""},
		{"edges of the network", done, "tradewind-lab reproduce aladdin edges", ""},
		{"violations and machines by scheduler", partly, "tradewind-lab reproduce aladdin placement",
			"Medea is its greedy form with one pair of weights, not an integer program with its weights swept; " +
				"Firmament has one cost model"},
		{"few machines on the contest's data: at most 2,600 with the flow network, 2,280 with `pack`", done,
			"make bench-placement", "2,340 and 2,278; no placement needs fewer than 2,229"},
	}
}

func volcanoParts() []audited {
	return []audited{
		{"simple parallel jobs: elastic between a minimum and a maximum", done,
			"pkg/scheduler/testdata/gang.txt elastic", ""},
		{"complex parallel jobs: roles that start together", done, "pkg/scheduler/testdata/gang.txt Roles", ""},
		{"pipelines: a stage starts before the one before it ends", missing, "",
			"a task starts when those that it reads from have ended; stages can be roles of one gang"},
		{"second-level scheduling: many tasks reuse a machine", done,
			"internal/broker/planner/fleet_test.go TestShortTasksShareFewMachines", ""},
		{"queues that lend and reclaim, over all clouds and pools", done,
			"internal/broker/testdata/queues/borrow reclaimed", ""},
		{"weights of namespaces", partly, "pkg/scheduler/testdata/fairness.txt weight",
			"in the library; in a broker all namespaces have the same weight"},
		{"a job of high priority preempts a whole job", done,
			"internal/broker/testdata/queues/gangreclaim as a whole", ""},
		{"tasks that do not run yet are evicted first (binding, bound)", done,
			"pkg/scheduler/testdata/edges.txt are evicted before running ones", ""},
		{"an action of the program", done, "pkg/scheduler/action_test.go ExampleWithAction", ""},
		{"a plugin of the program, with order functions and event handlers", done,
			"pkg/scheduler/example_test.go ExampleWithPlugin", ""},
		{"`TaskCompleted: CompleteJob`", partly,
			"internal/broker/attempt/roles_test.go TestGangIsDoneWhenChiefSucceeds",
			"for a gang; the other tasks of a job continue"},
		{"several sessions at once, with the conflicts solved by the cache", done,
			"bench/parsync/parsync_test.go TestProcessesPlaceEachTaskOnce", ""},
	}
}
