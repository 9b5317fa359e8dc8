package optimizer

// Objective says what a plan minimises.
type Objective string

const (
	// Cost minimises the sum of task and transfer costs in USD (paper, equation 1).
	Cost Objective = "cost"
	// Makespan minimises the time in hours at which the last task finishes
	// (paper, equations 2 and 3).
	Makespan Objective = "makespan"
	// Carbon minimises the sum of the tasks' emissions in kg CO2eq, ties by
	// cost where there is no deadline. Moving data counts as emitting nothing:
	// no cloud publishes what it does.
	Carbon Objective = "carbon"
)

// Model is one placement problem: choose one candidate for each task. Its JSON
// form is the one that `tradewind optimize` reads and `tradewind plan
// --model-out` writes; [ReadModel] reads it strictly.
//
// A Model is only read by this package, never changed, so one may be shared by
// any number of calls.
type Model struct {
	// Objective is what to minimise: [Cost], [Makespan] or [Carbon].
	Objective Objective `json:"objective"`
	// DeadlineHours bounds the makespan; nil is no bound.
	DeadlineHours *float64 `json:"deadlineHours"`
	// BudgetUSD bounds the total cost; nil is no bound.
	BudgetUSD *float64 `json:"budgetUSD"`
	// CarbonCapKg bounds the sum of the tasks' emissions in kg CO2eq; nil is no
	// bound.
	CarbonCapKg *float64 `json:"carbonCapKg,omitempty"`
	// Places names the locations between which moving data costs money or
	// time, for instance "aws:us-east-1". Names are unique.
	Places []string `json:"places"`
	// USDPerGiB[p][q] is the price of moving one GiB from place p to place q,
	// len(Places) rows of len(Places) columns. The diagonal counts too, and
	// neither symmetry nor the triangle inequality is assumed.
	USDPerGiB [][]float64 `json:"usdPerGiB"`
	// HoursPerGiB[p][q] is the time to move one GiB, of the same shape.
	HoursPerGiB [][]float64 `json:"hoursPerGiB"`
	// Tasks are what to place; ids are unique.
	Tasks []Task `json:"tasks"`
	// Edges are the data dependencies; they form no cycle. Two tasks may be
	// joined by several edges: each costs money, and each must have arrived,
	// all moving at once, before the consumer starts.
	Edges []Edge `json:"edges"`
	// Together are groups of tasks, by their ids, that are placed together: on candidates of one site
	// (Candidate.Site). A task is in one group at most.
	Together [][]string `json:"together,omitempty"`
	// Spread are groups of tasks of which only so many machines are at one site. A task may be in several.
	Spread []Spread `json:"spread,omitempty"`
}

// Task is one unit of work and the offers it could run on. A pinned input is a
// task with one candidate that takes no time and costs nothing.
type Task struct {
	ID string `json:"id"`
	// Candidates may be empty: then no plan exists, and Solve says so.
	Candidates []Candidate `json:"candidates"`
}

// Candidate is one offer (cloud, region, zone, type, market) for one task, with
// what the whole task would cost and take there.
type Candidate struct {
	// ID names the offer, unique within its task, for instance
	// "aws/us-east-1/use1-az1/p3.2xlarge/spot".
	ID string `json:"id"`
	// Place is an index into Model.Places.
	Place int `json:"place"`
	// USD is the expected cost of the task here: hours × price × nodes plus
	// surcharges.
	USD float64 `json:"usd"`
	// Hours is the expected run time of the task here.
	Hours float64 `json:"hours"`
	// KgCO2 is what the task emits here, kg CO2eq. Only a model with a carbon
	// objective or cap looks at it; a candidate whose grid is not known has no
	// place in such a model.
	KgCO2 float64 `json:"kgCO2,omitempty"`
	// Site is what the tasks of a group have in common where they are placed
	// together, for instance a zone; empty is the place. Nothing else looks at it.
	Site string `json:"site,omitempty"`
	// Zone is a part of the place, for groups that are spread over zones; empty is the whole place.
	Zone string `json:"zone,omitempty"`
}

// Edge moves GiB of data from the task named From to the task named To, which
// starts only when it has arrived. Zero GiB is a mere ordering.
type Edge struct {
	From string  `json:"from"`
	To   string  `json:"to"`
	GiB  float64 `json:"gib"`
}
