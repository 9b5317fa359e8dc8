package apitypes

import "time"

// Names of the events of a job's stream.
const (
	EventJob = "job" // a JobUpdate
	EventEnd = "end" // a JobView: the job is over, and the stream as well
)

// JobUpdate is what a follower of a job is sent: first everything, then what changed.
type JobUpdate struct {
	Now time.Time `json:"now" doc:"The broker's clock"`
	// Full updates replace what came before; others add to it, tasks by index and attempts by task and number.
	Full     bool       `json:"full" doc:"Everything, rather than what changed"`
	Job      JobView    `json:"job" doc:"The job"`
	Tasks    []TaskView `json:"tasks,omitempty" doc:"The tasks, or those that changed, by index"`
	Plans    []PlanHead `json:"plans,omitempty" doc:"All plans, where there is a new one"`
	Attempts []Attempt  `json:"attempts,omitempty" doc:"The attempts, or those that changed, by task and number"`
}

// The parts of a form that hands in a job file with its secrets, in this order: the file is read as it comes in.
const (
	FormSecrets = "secrets" // a JSON object of values, or of references to where they are kept, by name
	FormFile    = "file"
)

// Submitted is the answer to a job file.
type Submitted struct {
	JobView
	Warnings []string `json:"warnings,omitempty" doc:"What the file asks for that is read but not acted on"`
}

// JobList is a list of jobs.
type JobList struct {
	Now  time.Time `json:"now" doc:"The broker's clock"`
	Jobs []JobView `json:"jobs" nullable:"false" doc:"The jobs, the newest first"`
	Next string    `json:"next,omitempty" doc:"Where the list goes on, if it does: after of the call that continues it"`
}

// NextHeader is the trailer of a log that broke off before its end, or the header where a host sends answers as a
// whole: what to ask for as "after" to go on. Who does not say that trailers are read, by "TE: trailers", has the
// connection cut.
const NextHeader = "Tradewind-Next"

// PartTasks is a good number of tasks of a large job to ask for at once.
const PartTasks = 2000

// JobState is where a job is in its life.
type JobState string

// The states of a job. Ending jobs start nothing new and free their machines.
const (
	JobPlanning  JobState = "planning"
	JobWaiting   JobState = "waiting" // nothing feasible now; tried again at Job.RetryAt
	JobRunning   JobState = "running"
	JobEnding    JobState = "ending"
	JobSucceeded JobState = "succeeded"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// Over says whether the state is final.
func (s JobState) Over() bool {
	return s == JobSucceeded || s == JobFailed || s == JobCancelled
}

// Update is the last update of a job's services: another spec, by which one replica after the other is replaced. Where
// the first of them does not become ready the job goes on by the spec of before, as what Failed says why.
type Update struct {
	Spec   int       `json:"spec" doc:"Version of what the services are, 1 before the first update"`
	Before int       `json:"before" doc:"The version of before"`
	Plan   int       `json:"plan" doc:"The first plan that is made for it"`
	Since  time.Time `json:"since" doc:"When somebody asked for it"`
	Done   time.Time `json:"done,omitzero" doc:"When all replicas were replaced"`
	Failed string    `json:"failed,omitempty" doc:"Why it was stopped: the services go on as they were before"`
}

// Open says that there may be replicas that are still to be replaced.
func (u *Update) Open() bool { return u.Spec > 0 && u.Done.IsZero() }

// ServiceView is a service as users see it.
type ServiceView struct {
	Name     string `json:"name" doc:"Name of the service"`
	Replicas int    `json:"replicas" doc:"How many replicas it is to have"`
	Ready    int    `json:"ready" doc:"How many of them are ready"`
	Current  int    `json:"current" doc:"How many of those are of the version that the job goes by, after an update"`
}

// JobView is a job as users see it: the API's and the command line's JSON.
type JobView struct {
	ID          string    `json:"id" doc:"Job ID"`
	Name        string    `json:"name" doc:"Name its author gave it"`
	Queue       string    `json:"queue" doc:"Queue it runs in"`
	State       JobState  `json:"state" doc:"planning, waiting, running, suspending, suspended, ending, succeeded, failed or cancelled"`
	Reason      string    `json:"reason,omitempty" doc:"Why it failed, or what it waits for"`
	Objective   string    `json:"objective" doc:"cost or makespan"`
	Submitted   time.Time `json:"submitted" doc:"When it was submitted"`
	Finished    time.Time `json:"finished,omitzero" doc:"When it ended"`
	Deadline    time.Time `json:"deadline,omitzero" doc:"When it has to be done"`
	BudgetUSD   float64   `json:"budgetUSD,omitempty" doc:"The most it may cost, USD"`
	Tasks       int       `json:"tasks" doc:"Number of tasks"`
	Succeeded   int       `json:"succeeded" doc:"Tasks that are done"`
	SpentUSD    float64   `json:"spentUSD" doc:"Cost so far, machines that run now included, USD"`
	PlannedUSD  float64   `json:"plannedUSD" doc:"Expected cost by the first plan, USD"`
	OnDemandUSD float64   `json:"onDemandUSD" doc:"The same work on demand at its cheapest, with the data it moves, USD"`
	Plan        int       `json:"plan" doc:"Version of the plan in force, 0 before the first"`
	Late        bool      `json:"late,omitempty" doc:"The deadline cannot be or was not kept"`
	Source      string    `json:"source,omitempty" doc:"Where it came from"`

	Update    Update     `json:"update,omitzero" doc:"The last update of its services"`
	Suspended Suspension `json:"suspended,omitzero" doc:"While it is suspended: who has it wait, since when and why"`
}

// What a job is called that is suspended: while it still holds machines, whose work is being saved, and after.
const (
	JobSuspending JobState = "suspending"
	JobSuspended  JobState = "suspended"
)

// TaskView is a task as users see it.
type TaskView struct {
	Index      int       `json:"index" doc:"Index in the job"`
	Name       string    `json:"name" doc:"Name of the task"`
	State      string    `json:"state" doc:"waiting, queued, admitted, launching, running, succeeded, failed or cancelled"`
	After      []int     `json:"after,omitempty" doc:"Indexes of the tasks it waits for"`
	Offer      string    `json:"offer,omitempty" doc:"Where it runs, ran, or is planned to run"`
	Nodes      int       `json:"nodes" doc:"Number of machines"`
	USDPerHour float64   `json:"usdPerHour,omitempty" doc:"Price of one machine, USD per hour"`
	Hours      float64   `json:"hours,omitempty" doc:"Expected run time, hours"`
	Attempts   int       `json:"attempts" doc:"Attempts so far"`
	Progress   float64   `json:"progress,omitempty" doc:"Share of the work saved, 0 to 1"`
	Started    time.Time `json:"started,omitzero" doc:"When the last attempt started"`
	Ended      time.Time `json:"ended,omitzero" doc:"When it ended"`
	Reason     string    `json:"reason,omitempty" doc:"Why it failed"`
	KeptUntil  time.Time `json:"keptUntil,omitzero" doc:"Until when the machines of its last failed attempt are kept to be looked at"`
	Service    string    `json:"service,omitempty" doc:"The service that it is a replica of"`
	Ready      bool      `json:"ready,omitempty" doc:"Of a replica: it can be used"`
	Address    string    `json:"address,omitempty" doc:"Of a replica that is ready: where, HOST:PORT"`
	Unready    string    `json:"unready,omitempty" doc:"Of a replica that was ready: why it is not any more"`
	Waits      string    `json:"waits,omitempty" doc:"What it waits for, where that is a better price"`
	USD        float64   `json:"usd" doc:"Cost so far, USD"`
}

// JobDetail is a job with its tasks and its plans.
type JobDetail struct {
	JobView
	TaskList []TaskView    `json:"taskList" doc:"The tasks in the order of the file"`
	Services []ServiceView `json:"services,omitempty" doc:"The services in the order of the file, with the first tasks"`
	Plans    []PlanHead    `json:"plans" doc:"The plans, the last one in force"`
	Attempts []Attempt     `json:"attempts" doc:"Every attempt with what was bought and how it ended"`
	Next     int           `json:"next,omitempty" doc:"Index of the first task that is not among these, where there is one: after of the call that continues it"`
}
