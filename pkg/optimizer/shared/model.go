package shared

import "github.com/tradewind-broker/tradewind/pkg/optimizer"

// Limits on a model, so that a malicious file or a wrong unit cannot exhaust memory or overflow a sum. Tasks, edges,
// places and the size of the text have the limits of package optimizer.
const (
	// MaxMachines is the maximum number of entries in Model.Machines.
	MaxMachines = 500_000
	// MaxMost is the maximum of Machine.Most.
	MaxMost = 1_000_000_000
)

// Model is one problem: buy instances of machines and give each task a time on one of them. [ReadModel] reads its
// JSON form strictly. All times are hours from the request of the plan, 0 or later.
//
// This package never changes a Model, so concurrent calls may share one.
type Model struct {
	// Objective is the quantity to minimise: optimizer.Cost or optimizer.Makespan. No cloud publishes the emissions of
	// a part of a machine, so there is no optimizer.Carbon.
	Objective optimizer.Objective `json:"objective"`
	// DeadlineHours limits the end of the last task; nil means no limit.
	DeadlineHours *float64 `json:"deadlineHours"`
	// BudgetUSD limits the total cost; nil means no limit.
	BudgetUSD *float64 `json:"budgetUSD"`
	// MostInstances limits the number of instances of all machines together; 0 means no limit.
	MostInstances int `json:"mostInstances,omitempty"`
	// Places are the names of the locations of the machines, without repetition.
	Places []string `json:"places"`
	// USDPerGiB[p][q] is the price of moving one GiB from an instance in place p to a different instance in place q.
	USDPerGiB [][]float64 `json:"usdPerGiB"`
	// HoursPerGiB[p][q] is the time to move one GiB between them.
	HoursPerGiB [][]float64 `json:"hoursPerGiB"`
	// Machines are the offers that can be bought; their ids are unique.
	Machines []Machine `json:"machines"`
	// Tasks are the tasks to run; their ids are unique.
	Tasks []Task `json:"tasks"`
	// Edges are the data dependencies. They must not form a cycle.
	Edges []optimizer.Edge `json:"edges"`
}

// Machine is an offer of which a plan may buy several instances.
type Machine struct {
	ID string `json:"id"`
	// Place is an index into Model.Places.
	Place int `json:"place"`
	// USDPerHour is the price of one instance.
	USDPerHour float64 `json:"usdPerHour"`
	// CPUs, MemoryGiB and GPUs limit the sums of the resources of the tasks that run on one instance at the same time.
	CPUs      float64 `json:"cpus"`
	MemoryGiB float64 `json:"memoryGiB"`
	GPUs      float64 `json:"gpus"`
	// Speed divides the hours of a task; it is above 0.
	Speed float64 `json:"speed"`
	// BootHours is the time from the request of an instance until it can run tasks.
	BootHours float64 `json:"bootHours"`
	// MinimumHours is the shortest time that is billed. Longer times are rounded up to a multiple of IncrementHours;
	// with 0 they are not rounded.
	MinimumHours   float64 `json:"minimumHours"`
	IncrementHours float64 `json:"incrementHours"`
	// Most is the maximum number of instances in a plan.
	Most int `json:"most"`
}

// Task is one unit of work. It holds its resources on one instance for Hours divided by the speed of the machine.
type Task struct {
	ID        string  `json:"id"`
	CPUs      float64 `json:"cpus"`
	MemoryGiB float64 `json:"memoryGiB"`
	GPUs      float64 `json:"gpus"`
	Hours     float64 `json:"hours"`
}
