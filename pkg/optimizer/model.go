package optimizer

// Objective is the quantity that a plan minimises.
type Objective string

const (
	// Cost minimises the sum of task and transfer costs in USD (paper, equation 1).
	Cost Objective = "cost"
	// Makespan minimises the time in hours at which the last task finishes
	// (paper, equations 2 and 3).
	Makespan Objective = "makespan"
	// Carbon minimises the sum of the tasks' emissions in kg CO2eq. Without a deadline, ties are broken by cost. Data
	// transfers count as zero emissions, because no cloud publishes their emissions.
	Carbon Objective = "carbon"
	// Weighted minimises a weighted sum of cost and makespan; see [Weights].
	Weighted Objective = "weights"
)

// Weights are the parts of a [Weighted] objective: USD × the cost in USD plus Hours × the makespan in hours. Neither is
// negative, and one is above 0.
type Weights struct {
	USD   float64 `json:"usd"`
	Hours float64 `json:"hours"`
}

func (w Weights) of(usd, hours float64) float64 { return w.USD*usd + w.Hours*hours }

// Model is one placement problem: choose one candidate for each task. `tradewind optimize` reads and `tradewind plan
// --model-out` writes its JSON form; [ReadModel] reads it strictly.
//
// This package never changes a Model, so concurrent calls may share one.
type Model struct {
	// Objective is the quantity to minimise: [Cost], [Makespan], [Carbon] or [Weighted].
	Objective Objective `json:"objective"`
	// Weights are those of [Weighted]; nil with any other objective.
	Weights *Weights `json:"weights,omitempty"`
	// DeadlineHours limits the makespan; nil means no limit.
	DeadlineHours *float64 `json:"deadlineHours"`
	// BudgetUSD limits the total cost; nil means no limit.
	BudgetUSD *float64 `json:"budgetUSD"`
	// CarbonCapKg limits the sum of the tasks' emissions in kg CO2eq; nil means no limit.
	CarbonCapKg *float64 `json:"carbonCapKg,omitempty"`
	// Places are the names of the locations between which moving data costs money or time, for example
	// "aws:us-east-1". Names are unique.
	Places []string `json:"places"`
	// USDPerGiB[p][q] is the price of moving one GiB from place p to place q. It has len(Places) rows and columns.
	// The diagonal is used too. The matrix need not be symmetric or satisfy the triangle inequality.
	USDPerGiB [][]float64 `json:"usdPerGiB"`
	// HoursPerGiB[p][q] is the time to move one GiB, in the same form.
	HoursPerGiB [][]float64 `json:"hoursPerGiB"`
	// Tasks are the tasks to place; their ids are unique.
	Tasks []Task `json:"tasks"`
	// Edges are the data dependencies. They must not form a cycle. Several edges may connect the same two tasks: each
	// costs money, they transfer at the same time, and the consumer starts after all of them have arrived.
	Edges []Edge `json:"edges"`
	// Together are groups of task ids. The tasks of a group are placed at the same site (Candidate.Site). A task may
	// be in at most one group.
	Together [][]string `json:"together,omitempty"`
	// Spread are groups of tasks with a maximum number of machines at one site. A task may be in several groups.
	Spread []Spread `json:"spread,omitempty"`
}

// Task is one unit of work and its possible offers. A pinned input is a task with one candidate that takes no time
// and costs nothing.
type Task struct {
	ID string `json:"id"`
	// Candidates may be empty. Then the model has no plan, and Solve returns Infeasible.
	Candidates []Candidate `json:"candidates"`
}

// Candidate is one offer (cloud, region, zone, type, market) for one task, with the cost and time of the whole task
// there.
type Candidate struct {
	// ID is the offer's id, unique within the task, for example "aws/us-east-1/use1-az1/p3.2xlarge/spot".
	ID string `json:"id"`
	// Place is an index into Model.Places.
	Place int `json:"place"`
	// USD is the expected cost of the task here: hours × price × nodes plus
	// surcharges.
	USD float64 `json:"usd"`
	// Hours is the expected run time of the task here.
	Hours float64 `json:"hours"`
	// KgCO2 is the task's emissions here in kg CO2eq. It is used only by models with a carbon objective or cap;
	// candidates on a grid with unknown emissions must not be in such a model.
	KgCO2 float64 `json:"kgCO2,omitempty"`
	// Site is the property that the tasks of a Together group must share, for example a zone. Empty means the place. It
	// is used only for these groups.
	Site string `json:"site,omitempty"`
	// Zone is a part of the place, for Spread groups by zone. Empty means the whole place.
	Zone string `json:"zone,omitempty"`
}

// Edge moves GiB of data from task From to task To. To starts only after the data has arrived. Zero GiB only orders
// the two tasks.
type Edge struct {
	From string  `json:"from"`
	To   string  `json:"to"`
	GiB  float64 `json:"gib"`
}
