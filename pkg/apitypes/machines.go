package apitypes

import "time"

// MachineState is the state of a bought machine.
type MachineState string

// The states of a machine, in order.
const (
	MachineWanted   MachineState = "wanted"   // it waits for quota or money
	MachineAdmitted MachineState = "admitted" // it is about to be bought
	MachineBooting  MachineState = "booting"
	MachineUp       MachineState = "up"
	MachineDraining MachineState = "draining" // its task saves its work
	MachineEnding   MachineState = "ending"
	MachineGone     MachineState = "gone"
)

// WorkerView is a machine that the broker bought: for one attempt, or a worker for tasks that share machines.
type WorkerView struct {
	ID    string       `json:"id" example:"train-4k7q2a.3.1" doc:"The attempt that it was bought for, and #RANK if that has several machines"`
	Job   string       `json:"job" example:"train-4k7q2a"`
	Task  string       `json:"task" example:"worker[0]" doc:"The task of that attempt; worker[N] for a machine that tasks share"`
	Offer string       `json:"offer" example:"aws/us-east-1/use1-az1/c7a.large/spot"`
	State MachineState `json:"state" enum:"wanted,admitted,booting,up,draining,ending,gone"`
	// Worker is the name of the machine in the Hosts of the attempts that share it.
	Worker string `json:"worker,omitempty" example:"w3-1" doc:"If tasks share it: its name in the hosts of their attempts"`
	// Since is the time of the purchase, or of the admission if the machine was not bought yet.
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until,omitzero" doc:"When it ended"`
	Up        time.Time `json:"up,omitzero" doc:"When it was ready for work"`
	Tasks     int       `json:"tasks" doc:"How many attempts of tasks have run on it, or run now"`
	Simulated bool      `json:"simulated,omitempty" doc:"Nothing was bought: its cost is an estimate"`
	// Utilisation is the share of the machine's vCPU hours after Since that tasks held.
	Utilisation float64 `json:"utilisation" minimum:"0" maximum:"1" doc:"Part of its vCPU hours that tasks held, boot included"`
	USD         float64 `json:"usd" doc:"Its cost so far"`
	// BootUSD is the part of USD from before the machine was up. IdleUSD is the part from times at
	// which no task held any of its vCPUs.
	BootUSD float64 `json:"bootUSD" doc:"Part of usd before it was up"`
	IdleUSD float64 `json:"idleUSD" doc:"Part of usd for vCPUs that no task held once it was up"`
}

// MachineList lists machines, those of the newest jobs first.
type MachineList struct {
	Now      time.Time    `json:"now"`
	Machines []WorkerView `json:"machines" nullable:"false"`
	Partial  bool         `json:"partial,omitempty" doc:"There are more machines of older jobs"`
}
