package events

import "time"

// Data is the payload of an event.
type Data interface {
	// Type is the CloudEvents type, tradewind.<noun>.<verb>.v1.
	Type() string
	// Subject is the ID of the record that the event concerns.
	Subject() string
	// Group is the job the event belongs to, or what else it is best handled together with.
	Group() string
}

// Types of the events, in the order a job meets them.
const (
	TypeObjectCreated    = "tradewind.object.created.v1"
	TypeDAGSubmitted     = "tradewind.dag.submitted.v1"
	TypeDAGRejected      = "tradewind.dag.rejected.v1"
	TypeDAGReplan        = "tradewind.dag.replan.v1"
	TypeDAGPlanned       = "tradewind.dag.planned.v1"
	TypeDAGAdvance       = "tradewind.dag.advance.v1"
	TypeDAGCancel        = "tradewind.dag.cancel.v1"
	TypeDAGSuspended     = "tradewind.dag.suspended.v1"
	TypeDAGResumed       = "tradewind.dag.resumed.v1"
	TypeQueueSuspended   = "tradewind.queue.suspended.v1"
	TypeQueueResumed     = "tradewind.queue.resumed.v1"
	TypeDAGEnding        = "tradewind.dag.ending.v1"
	TypeDAGSettled       = "tradewind.dag.settled.v1"
	TypeDAGFinished      = "tradewind.dag.finished.v1"
	TypeTaskReady        = "tradewind.task.ready.v1"
	TypeTaskAdmitted     = "tradewind.task.admitted.v1"
	TypeTaskStarted      = "tradewind.task.started.v1"
	TypeTaskCheckpointed = "tradewind.task.checkpointed.v1"
	TypeTaskSucceeded    = "tradewind.task.succeeded.v1"
	TypeTaskFailed       = "tradewind.task.failed.v1"
	TypeClusterUp        = "tradewind.cluster.up.v1"
	TypeClusterLost      = "tradewind.cluster.lost.v1"
	TypeClusterRelease   = "tradewind.cluster.release.v1"
	TypeCapacityFreed    = "tradewind.capacity.freed.v1"
	TypeLocationBlocked  = "tradewind.location.blocked.v1"
	TypeSpotInterrupted  = "tradewind.spot.interrupted.v1"
	TypeLeaseDue         = "tradewind.lease.due.v1"
	TypeGangBroken       = "tradewind.gang.broken.v1"
	TypePriceMoved       = "tradewind.price.moved.v1"
	TypeMarketTicked     = "tradewind.market.ticked.v1"
	TypeCatalogRefresh   = "tradewind.catalog.refresh.v1"
	TypeBrokerReconcile  = "tradewind.broker.reconcile.v1"
)

// ObjectCreated says that a DAG file appeared in a bucket or a watched folder.
type ObjectCreated struct {
	Bucket string `json:"bucket" example:"file:///home/ada/dags" doc:"Bucket or folder URL"`
	Key    string `json:"key" example:"train.yaml" doc:"Object name in the bucket"`
	ETag   string `json:"etag" example:"9f86d081884c7d65" doc:"Digest of the content; the same content is one job"`
	Size   int64  `json:"size" example:"812" doc:"Bytes"`
	// Version is read and no other: what took its place is told of as well.
	Version string `json:"version,omitempty" example:"1700000000000001" doc:"Which writing of the object, where its store tells them apart"`
}

// DAGSubmitted says that a job was accepted and stored.
type DAGSubmitted struct {
	Job   string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Name  string `json:"name" example:"train-infer" doc:"Name its author gave it"`
	Queue string `json:"queue" example:"research" doc:"Queue it waits in"`
	Tasks int    `json:"tasks" example:"2" doc:"Number of tasks"`
}

// DAGRejected says that a file in the DAG bucket could not be read as a job.
type DAGRejected struct {
	Bucket string `json:"bucket" example:"file:///home/ada/dags" doc:"Bucket or folder URL"`
	Key    string `json:"key" example:"train.yaml" doc:"Object name in the bucket"`
	Reason string `json:"reason" example:"train.yaml:4:3: tasks.train.rum: unknown field (did you mean run?)" doc:"The error, with file, line and field"`
}

// DAGReplan asks for a new plan of the unfinished part of a job.
type DAGReplan struct {
	Job    string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Reason string `json:"reason" example:"capacity in aws/us-east-1/use1-az1" doc:"Why the plan in force does not do"`
	// Plan is the version that is no longer good: a newer one in force makes the request moot.
	Plan int `json:"plan" example:"1" doc:"Version of the plan that failed; ignored when a newer one is in force"`
}

// DAGPlanned says that a plan is in force, with its bids.
type DAGPlanned struct {
	Job    string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Plan   int     `json:"plan" example:"2" doc:"Version of the plan"`
	Status string  `json:"status" example:"optimal" doc:"optimal or feasible"`
	USD    float64 `json:"usd" example:"4.18" doc:"Expected cost of what is left, USD"`
	Hours  float64 `json:"hours" example:"2.7" doc:"Expected time of what is left, hours"`
}

// DAGAdvance asks to go on finding ready tasks where one transaction could not announce all.
type DAGAdvance struct {
	Job  string `json:"job" example:"montage-7c1x9d" doc:"Job ID"`
	From int    `json:"from" example:"60" doc:"First task index not yet looked at"`
}

// DAGCancel asks to end a job.
type DAGCancel struct {
	Job    string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Reason string `json:"reason" example:"cancelled by user" doc:"Why"`
}

// DAGSuspended says that somebody has a job wait, or that what runs of it is to be looked at again because its queue is
// suspended: it saves its work and gives back its machines.
type DAGSuspended struct {
	Job    string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Queue  string `json:"queue" example:"research" doc:"Queue of the job"`
	By     string `json:"by,omitempty" example:"ann" doc:"Who has it wait"`
	Reason string `json:"reason,omitempty" example:"the data is wrong" doc:"Why"`
}

// DAGResumed says that a job that was suspended goes on.
type DAGResumed struct {
	Job   string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Queue string `json:"queue" example:"research" doc:"Queue of the job"`
	By    string `json:"by,omitempty" example:"ann" doc:"Who resumed it"`
}

// QueueSuspended says that somebody has a queue, with those below it, admit nothing.
type QueueSuspended struct {
	Queue  string `json:"queue" example:"research" doc:"Name of the queue"`
	By     string `json:"by,omitempty" example:"ann" doc:"Who"`
	Reason string `json:"reason,omitempty" example:"maintenance" doc:"Why"`
	Drain  bool   `json:"drain,omitempty" example:"true" doc:"What runs in it saves its work and waits, too"`
	After  string `json:"after,omitempty" example:"train-infer-4k7q2a" doc:"Job behind which the next are looked at"`
}

// QueueResumed says that a queue that was suspended admits again.
type QueueResumed struct {
	Queue string `json:"queue" example:"research" doc:"Name of the queue"`
	By    string `json:"by,omitempty" example:"ann" doc:"Who resumed it"`
}

// DAGEnding says that nothing more of a job will start; its machines are being freed.
type DAGEnding struct {
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Queue   string `json:"queue" example:"research" doc:"Queue of the job"`
	Outcome string `json:"outcome" example:"succeeded" doc:"succeeded, failed or cancelled"`
}

// DAGSettled says that every machine of an ending job is gone and paid for.
type DAGSettled struct {
	Job string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	USD float64 `json:"usd" example:"4.02" doc:"What the job cost, USD"`
}

// DAGFinished says that a job is over.
type DAGFinished struct {
	Job     string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Name    string  `json:"name" example:"train-infer" doc:"Name its author gave it"`
	Outcome string  `json:"outcome" example:"succeeded" doc:"succeeded, failed or cancelled"`
	Reason  string  `json:"reason,omitempty" example:"" doc:"Why, when it did not succeed"`
	USD     float64 `json:"usd" example:"4.02" doc:"What it cost, USD"`
	Hours   float64 `json:"hours" example:"2.9" doc:"From submission to the end, hours"`
}

// TaskReady says that all a task waits for has succeeded.
type TaskReady struct {
	Job   string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task  int    `json:"task" example:"1" doc:"Index of the task in the job"`
	Queue string `json:"queue" example:"research" doc:"Queue it waits in"`
	// Try counts the announcements of a task: the first, and one for each retry of its own failure.
	Try int `json:"try" example:"1" doc:"1, and one more for each retry after the task's own failure"`
}

// TaskAdmitted says that a task may take capacity now.
type TaskAdmitted struct {
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task    int    `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt int    `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
}

// TaskStarted says that the task's process runs on all nodes.
type TaskStarted struct {
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task    int    `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt int    `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
}

// TaskCheckpointed says that progress was saved.
type TaskCheckpointed struct {
	Job      string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task     int     `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt  int     `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
	Seq      int     `json:"seq" example:"3" doc:"Sequence number of the checkpoint"`
	Progress float64 `json:"progress" example:"0.62" doc:"Share of the work done, 0 to 1, where it is known"`
}

// TaskSucceeded says that a task ended with exit code 0 on all nodes and its outputs are kept.
type TaskSucceeded struct {
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task    int    `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt int    `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
	Cluster string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster it ran on"`
}

// TaskFailed says that a task's own work failed; failures of clouds are not task failures.
type TaskFailed struct {
	Job      string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task     int    `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt  int    `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
	Cluster  string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster it ran on"`
	ExitCode int    `json:"exitCode" example:"2" doc:"Exit code of the task"`
	Message  string `json:"message" example:"run: FileNotFoundError: data.csv" doc:"Phase and last lines of its log"`
	// Final says that trying again is pointless: the cloud refused the request as invalid.
	Final bool `json:"final,omitempty" example:"false" doc:"Trying again is pointless"`
}

// ClusterUp says that every node of a cluster has dialled home whose task is in a gang. Others have their work at once
// (decision 6), and nothing says so.
type ClusterUp struct {
	Cluster string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster ID"`
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
}

// ClusterLost says that a cluster was taken away or fell silent before its task ended.
type ClusterLost struct {
	Cluster string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster ID"`
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Reason  string `json:"reason" example:"spot interruption" doc:"Why"`
}

// ClusterRelease asks to free a cluster that nothing needs any more.
type ClusterRelease struct {
	Cluster string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster ID"`
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Reason  string `json:"reason" example:"job cancelled" doc:"Why"`
}

// CapacityFreed says that an attempt's machines are gone, what they cost, and what they held of the queue's quota.
type CapacityFreed struct {
	Queue       string  `json:"queue" example:"research" doc:"Queue whose quota it counted against"`
	Job         string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task        int     `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt     int     `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
	Cluster     string  `json:"cluster,omitempty" example:"train-infer-4k7q2a.1.1" doc:"Cluster that is gone, where there was one"`
	VCPU        float64 `json:"vcpu" example:"8" doc:"vCPUs freed"`
	USD         float64 `json:"usd" example:"1.93" doc:"What the attempt cost, USD"`
	ReservedUSD float64 `json:"reservedUSD" example:"2.10" doc:"What was set aside of the budget for it, USD"`
	// Spot, Hours and Outcome are what was learned of a spot market.
	Spot    string  `json:"spot,omitempty" example:"aws/us-east-1/use1-az1/p3.2xlarge" doc:"Spot offer it ran on, without the market"`
	Hours   float64 `json:"hours,omitempty" example:"2.1" doc:"Machine hours held there"`
	Outcome string  `json:"outcome,omitempty" example:"preempted" doc:"How the attempt ended there"`
}

// LocationBlocked says that a location is not to be tried until a time.
type LocationBlocked struct {
	Cloud        string    `json:"cloud" example:"aws" doc:"Cloud"`
	Region       string    `json:"region,omitempty" example:"us-east-1" doc:"Region; empty blocks the cloud"`
	Zone         string    `json:"zone,omitempty" example:"use1-az1" doc:"Zone; empty blocks the region"`
	InstanceType string    `json:"instanceType,omitempty" example:"p3.2xlarge" doc:"Machine type; empty blocks all"`
	Market       string    `json:"market,omitempty" example:"spot" doc:"spot, on-demand, or empty for both"`
	Kind         string    `json:"kind" example:"capacity" doc:"capacity, quota, auth or transient"`
	Until        time.Time `json:"until" example:"2026-11-21T09:30:00Z" doc:"When it may be tried again"`
}

// SpotInterrupted is a cloud's notice that it takes a machine, or that it did.
type SpotInterrupted struct {
	Cluster string    `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster ID"`
	Job     string    `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Machine string    `json:"machine,omitempty" example:"i-0abc1234" doc:"The cloud's own ID of the machine"`
	Kind    string    `json:"kind" example:"interruption" doc:"interruption, rebalance or taken"`
	At      time.Time `json:"at" example:"2026-11-21T09:02:00Z" doc:"When it is, or was, taken"`
}

// LeaseDue says that what is set aside of a queue's month's budget for an attempt is nearly used up: more is set aside,
// or it is stopped.
type LeaseDue struct {
	Cluster string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster ID"`
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Queue   string `json:"queue" example:"research" doc:"Queue of the job"`
}

// GangBroken says that a task of a gang does not go on: the others of the gang can not go on without it, or need not.
type GangBroken struct {
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Gang    string `json:"gang" example:"workers" doc:"Name of the gang"`
	Task    int    `json:"task" example:"0" doc:"Index of the task that does not go on"`
	Attempt int    `json:"attempt" example:"1" doc:"Number of its attempt"`
	Done    bool   `json:"done,omitempty" example:"false" doc:"It was the gang's chief and has succeeded: the work of the others is done with it"`
	Joining bool   `json:"joining,omitempty" example:"false" doc:"With done: the work of those alone that join its role"`
	// Failed and ExitCode say what its reactions are asked of; without, its machines were taken or did not come.
	Failed   bool `json:"failed,omitempty" example:"false" doc:"Its script failed"`
	ExitCode int  `json:"exitCode,omitempty" example:"1" doc:"With failed: exit code of the script; 0 where it had not begun or could not be ended"`
}

// PriceMoved says that a spot price is no more what the bids of the plan in force were made on.
type PriceMoved struct {
	Job     string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Plan    int     `json:"plan" example:"2" doc:"Version of its plan in force"`
	Offer   string  `json:"offer" example:"aws/us-east-1/use1-az1/p3.2xlarge" doc:"Offer whose price moved the most, without its market"`
	USD     float64 `json:"usd" example:"1.12" doc:"What it costs now, USD per hour"`
	FromUSD float64 `json:"fromUSD" example:"0.93" doc:"What the bids were made on, USD per hour"`
}

// PriceTick is a new spot price of an offer.
type PriceTick struct {
	Offer string  `json:"offer" example:"aws/us-east-1/use1-az1/p3.2xlarge" doc:"Offer ID without its market"`
	USD   float64 `json:"usd" example:"1.02" doc:"Spot price, USD per hour"`
	// Since is when it became that; zero is not known.
	Since time.Time `json:"since,omitzero" example:"2026-11-21T09:00:00Z" doc:"When it became that; when it is told, if it says nothing"`
}

// MarketTicked brings new spot prices, or on the schedule asks for them when it brings none.
type MarketTicked struct {
	Prices []PriceTick `json:"prices,omitempty" doc:"New prices"`
	// After and Changed go on with a tick where one invocation could not look at all jobs.
	After   string         `json:"after,omitempty" example:"" doc:"Job after which to go on"`
	Changed []MarketChange `json:"changed,omitempty" doc:"The prices that have changed"`
}

// MarketChange says how the price of an offer has changed.
type MarketChange struct {
	Offer string  `json:"offer" example:"aws/us-east-1/use1-az1/p3.2xlarge" doc:"Offer ID without its market"`
	USD   float64 `json:"usd" example:"1.02" doc:"Spot price now, USD per hour"`
}

// CatalogRefresh asks to load the catalogue anew; the schedule sends it.
type CatalogRefresh struct{}

// BrokerReconcile asks to compare what is recorded with what runs. The schedule sends it, and reconcile itself where
// one invocation could not look at all.
type BrokerReconcile struct {
	After string `json:"after,omitempty" example:"" doc:"Job after which to go on"`
}
