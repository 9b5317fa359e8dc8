package apitypes

import "time"

// Names of the events of a job's stream.
const (
	EventJob = "job" // a JobUpdate
	EventEnd = "end" // a JobView: the job has finished, and the stream ends
)

// JobUpdate is an update for a follower of a job: first everything, then changes.
type JobUpdate struct {
	Now time.Time `json:"now" doc:"The broker's clock"`
	// Full means that the update replaces all earlier ones. Other updates add to them: tasks by index, and attempts
	// by task and number.
	Full     bool       `json:"full" doc:"Everything, rather than what changed"`
	Job      JobView    `json:"job" doc:"The job"`
	Tasks    []TaskView `json:"tasks,omitempty" doc:"The tasks, or those that changed, by index"`
	Plans    []PlanHead `json:"plans,omitempty" doc:"All plans, if there is a new one"`
	Attempts []Attempt  `json:"attempts,omitempty" doc:"The attempts, or those that changed, by task and number"`
}

// The parts of a form that submits a job file with secrets, in this order, because the file is read as it arrives.
const (
	FormSecrets = "secrets" // a JSON object: name to value, or name to reference to where the value is stored
	FormFile    = "file"
)

// Submitted is the response to a submitted job file.
type Submitted struct {
	JobView
	Warnings []string `json:"warnings,omitempty" doc:"Settings of the file that are read but have no effect"`
}

// JobList is a list of jobs.
type JobList struct {
	Now  time.Time `json:"now" doc:"The broker's clock"`
	Jobs []JobView `json:"jobs" nullable:"false" doc:"The jobs, the newest first"`
	Next string    `json:"next,omitempty" doc:"If the list is incomplete: the value of after for the next call"`
}

// NextHeader is the HTTP trailer of a log that was cut off before its end. Its value is the "after"
// with which the caller continues. A host that sends responses as a whole sends it as a header. If
// the caller does not accept trailers ("TE: trailers"), the server cuts the connection instead.
const NextHeader = "Tradewind-Next"

// PartTasks is a good page size, in tasks, for reading a large job.
const PartTasks = 2000

// JobState is the state of a job.
type JobState string

// The states of a job. Ending jobs start nothing new and release their machines.
const (
	JobPlanning  JobState = "planning"
	JobWaiting   JobState = "waiting" // nothing feasible now; planned again at Job.RetryAt
	JobRunning   JobState = "running"
	JobEnding    JobState = "ending"
	JobSucceeded JobState = "succeeded"
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
)

// Finished reports whether the state is final.
func (s JobState) Finished() bool {
	return s == JobSucceeded || s == JobFailed || s == JobCancelled
}

// Update is the latest update of a job's services: a new spec, with which replicas are replaced one after the other.
// If the first replacement does not become ready, the job continues with the previous spec, and Failed is the reason.
type Update struct {
	Spec   int       `json:"spec" doc:"Version of the services' spec, 1 before the first update"`
	Before int       `json:"before" doc:"The previous version"`
	Plan   int       `json:"plan" doc:"The first plan made for the update"`
	Since  time.Time `json:"since" doc:"When the update was requested"`
	Done   time.Time `json:"done,omitzero" doc:"When all replicas were replaced"`
	Failed string    `json:"failed,omitempty" doc:"Why the update was stopped; the services continue with the previous version"`
}

// Open reports whether replicas may still have to be replaced.
func (u *Update) Open() bool { return u.Spec > 0 && u.Done.IsZero() }

// ServiceView is a service as users see it.
type ServiceView struct {
	Name     string `json:"name" doc:"Name of the service"`
	Replicas int    `json:"replicas" doc:"Desired number of replicas"`
	Ready    int    `json:"ready" doc:"Number of ready replicas"`
	Current  int    `json:"current" doc:"Number of ready replicas that have the job's current version"`
}

// JobView is a job as users see it: the API's and the command line's JSON.
type JobView struct {
	ID          string    `json:"id" doc:"Job ID"`
	Name        string    `json:"name" doc:"Name its author gave it"`
	Queue       string    `json:"queue" doc:"Queue it runs in"`
	State       JobState  `json:"state" doc:"planning, waiting, running, suspending, suspended, ending, succeeded, failed or cancelled"`
	Reason      string    `json:"reason,omitempty" doc:"Why it failed, or what it waits for"`
	Objective   string    `json:"objective" doc:"cost, makespan or weights"`
	Submitted   time.Time `json:"submitted" doc:"When it was submitted"`
	Finished    time.Time `json:"finished,omitzero" doc:"When it finished"`
	Expires     time.Time `json:"expires,omitzero" doc:"When its records, logs and outputs are removed, if it has finished and is not kept forever"`
	Deadline    time.Time `json:"deadline,omitzero" doc:"When it must be finished"`
	BudgetUSD   float64   `json:"budgetUSD,omitempty" doc:"Maximum cost, USD"`
	Tasks       int       `json:"tasks" doc:"Number of tasks"`
	Succeeded   int       `json:"succeeded" doc:"Number of succeeded tasks"`
	SpentUSD    float64   `json:"spentUSD" doc:"Cost so far, including running machines, USD"`
	PlannedUSD  float64   `json:"plannedUSD" doc:"Expected cost by the first plan, USD"`
	ForecastUSD float64   `json:"forecastUSD,omitempty" doc:"Expected cost when it ends, USD: what it has spent, and its remaining work by the current plan. Not in lists, and not for services"`
	OnDemandUSD float64   `json:"onDemandUSD" doc:"Cost of the same work on the cheapest on-demand machines, including data transfer, USD"`
	Plan        int       `json:"plan" doc:"Version of the current plan, 0 before the first"`
	Late        bool      `json:"late,omitempty" doc:"The deadline cannot be met or was missed"`
	Source      string    `json:"source,omitempty" doc:"Where it came from"`
	Simulated   bool      `json:"simulated,omitempty" doc:"Its machines are simulated: nothing is bought, and amounts of money are estimates"`
	TimeScale   float64   `json:"timeScale,omitempty" doc:"If it is simulated in compressed time: wall seconds per second of the job"`
	NoBroker    bool      `json:"noBroker,omitempty" doc:"It is unfinished and no broker runs for it: it does not continue, and its state is that of the time when the broker ended. Only in the output of the command line"`

	Update    Update     `json:"update,omitzero" doc:"The last update of its services"`
	Suspended Suspension `json:"suspended,omitzero" doc:"If it is suspended: by whom, since when and why"`
}

// StateText is the state of a job for people.
func (j *JobView) StateText() string {
	if j.NoBroker {
		return "no broker"
	}
	return string(j.State)
}

// The states of a suspended job: the first while it still holds machines on which work is being saved, the second
// afterwards.
const (
	JobSuspending JobState = "suspending"
	JobSuspended  JobState = "suspended"
)

// TaskView is a task as users see it.
type TaskView struct {
	Index int    `json:"index" doc:"Index in the job"`
	Name  string `json:"name" doc:"Name of the task"`
	State string `json:"state" doc:"waiting, queued, admitted, launching, running, succeeded, failed or cancelled"`
	After []int  `json:"after,omitempty" doc:"Indexes of the tasks it waits for"`
	Offer string `json:"offer,omitempty" doc:"Where it runs, ran, or is planned to run"`
	Nodes int    `json:"nodes" doc:"Number of machines"`
	// Accelerators are those of one machine.
	Accelerators string    `json:"accelerators,omitempty" example:"V100:1" doc:"Accelerators of one machine, TYPE:COUNT"`
	USDPerHour   float64   `json:"usdPerHour,omitempty" doc:"Price of one machine, USD per hour"`
	Hours        float64   `json:"hours,omitempty" doc:"Expected run time, hours"`
	Attempts     int       `json:"attempts" doc:"Attempts so far"`
	Progress     float64   `json:"progress,omitempty" doc:"Share of the work that is saved, 0 to 1"`
	Started      time.Time `json:"started,omitzero" doc:"When the last attempt started"`
	Ended        time.Time `json:"ended,omitzero" doc:"When it ended"`
	Reason       string    `json:"reason,omitempty" doc:"Why it failed"`
	Output       string    `json:"output,omitempty" doc:"URI of the folder with its outputs. If it has several machines, the files of each are below RANK/files"`
	KeptUntil    time.Time `json:"keptUntil,omitzero" doc:"Until when the machines of its last failed attempt are kept for inspection"`
	Service      string    `json:"service,omitempty" doc:"The service of which it is a replica"`
	Ready        bool      `json:"ready,omitempty" doc:"The replica is ready"`
	Address      string    `json:"address,omitempty" doc:"Address of a ready replica, HOST:PORT"`
	Unready      string    `json:"unready,omitempty" doc:"Why a replica that was ready no longer is"`
	Waits        string    `json:"waits,omitempty" doc:"If it waits for a better price, or for machines that have not answered: which"`
	USD          float64   `json:"usd" doc:"Cost so far, USD"`
	// Unsaved reports that the task saves no checkpoints.
	Unsaved bool `json:"unsaved,omitempty" doc:"It saves no checkpoints: if it leaves its machine before it has finished, it starts again from the beginning"`
}

// LosesWork reports whether a task that runs, or has run, would start again from the beginning if it left its machine.
func (t *TaskView) LosesWork() bool { return t.Unsaved && !t.Started.IsZero() && t.Ended.IsZero() }

// JobDetail is a job with its tasks and its plans.
type JobDetail struct {
	JobView
	TaskList []TaskView    `json:"taskList" doc:"The tasks in the order of the file"`
	Services []ServiceView `json:"services,omitempty" doc:"The services in the order of the file; only with the first page of tasks"`
	Plans    []PlanHead    `json:"plans" doc:"The plans; the last one is current"`
	Attempts []Attempt     `json:"attempts" doc:"Every attempt: what was bought and how it ended"`
	Next     int           `json:"next,omitempty" doc:"If there are more tasks: index of the next one, the value of after for the next call"`
}
