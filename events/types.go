package events

import "time"

// Data is the payload of an event.
type Data interface {
	// Type returns the CloudEvents type, tradewind.<noun>.<verb>.v1.
	Type() string
	// Subject returns the ID of the record that the event concerns.
	Subject() string
	// Group returns the job of the event, or another key. Events with the same key are best handled together.
	Group() string
}

// Types of the events, in the order in which they occur in the life of a job.
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

// ObjectCreated reports that a DAG file appeared in a bucket or a watched folder.
type ObjectCreated struct {
	Bucket string `json:"bucket" example:"file:///home/ada/dags" doc:"Bucket or folder URL"`
	Key    string `json:"key" example:"train.yaml" doc:"Object name in the bucket"`
	ETag   string `json:"etag" example:"9f86d081884c7d65" doc:"Digest of the content; the same content is one job"`
	Size   int64  `json:"size" example:"812" doc:"Bytes"`
	// Version is the only version of the file that is read. A newer version has its own event.
	Version string `json:"version,omitempty" example:"1700000000000001" doc:"Version of the object, if its store has versions"`
}

// DAGSubmitted reports that a job was accepted and stored.
type DAGSubmitted struct {
	Job   string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Name  string `json:"name" example:"train-infer" doc:"Name its author gave it"`
	Queue string `json:"queue" example:"research" doc:"Queue it waits in"`
	Tasks int    `json:"tasks" example:"2" doc:"Number of tasks"`
}

// DAGRejected reports that a file in the DAG bucket is not a valid job.
type DAGRejected struct {
	Bucket string `json:"bucket" example:"file:///home/ada/dags" doc:"Bucket or folder URL"`
	Key    string `json:"key" example:"train.yaml" doc:"Object name in the bucket"`
	Reason string `json:"reason" example:"train.yaml:4:3: tasks.train.rum: unknown field (did you mean run?)" doc:"The error, with file, line and field"`
}

// DAGReplan requests a new plan of the unfinished part of a job.
type DAGReplan struct {
	Job    string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Reason string `json:"reason" example:"capacity in aws/us-east-1/use1-az1" doc:"Why the current plan is no longer good"`
	// Plan is the version of the plan that is no longer good. If a newer plan is current, the request is ignored.
	Plan int `json:"plan" example:"1" doc:"Version of the plan that failed; the request is ignored if a newer one is current"`
}

// DAGPlanned reports that a plan and its bids are current.
type DAGPlanned struct {
	Job    string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Plan   int     `json:"plan" example:"2" doc:"Version of the plan"`
	Status string  `json:"status" example:"optimal" doc:"optimal or feasible"`
	USD    float64 `json:"usd" example:"4.18" doc:"Expected cost of the remaining tasks, USD"`
	Hours  float64 `json:"hours" example:"2.7" doc:"Expected time of the remaining tasks, hours"`
}

// DAGAdvance requests to continue the announcement of ready tasks, if one transaction could not announce all.
type DAGAdvance struct {
	Job  string `json:"job" example:"montage-7c1x9d" doc:"Job ID"`
	From int    `json:"from" example:"60" doc:"Index of the first task to continue with"`
}

// DAGCancel asks to cancel a job.
type DAGCancel struct {
	Job    string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Reason string `json:"reason" example:"cancelled by user" doc:"Why"`
}

// DAGSuspended reports that a user has suspended a job, or that the queue of a job is suspended and the job's running
// tasks must be checked. These tasks save their work and release their machines.
type DAGSuspended struct {
	Job    string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Queue  string `json:"queue" example:"research" doc:"Queue of the job"`
	By     string `json:"by,omitempty" example:"ann" doc:"User who suspended it"`
	Reason string `json:"reason,omitempty" example:"the data is wrong" doc:"Why"`
}

// DAGResumed reports that a suspended job continues.
type DAGResumed struct {
	Job   string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Queue string `json:"queue" example:"research" doc:"Queue of the job"`
	By    string `json:"by,omitempty" example:"ann" doc:"User who resumed it"`
}

// QueueSuspended reports that a user has suspended a queue. The queue and its descendants admit nothing.
type QueueSuspended struct {
	Queue  string `json:"queue" example:"research" doc:"Name of the queue"`
	By     string `json:"by,omitempty" example:"ann" doc:"User who suspended it"`
	Reason string `json:"reason,omitempty" example:"maintenance" doc:"Why"`
	Drain  bool   `json:"drain,omitempty" example:"true" doc:"Running tasks save their work and wait, too"`
	After  string `json:"after,omitempty" example:"train-infer-4k7q2a" doc:"Job after which to continue"`
}

// QueueResumed reports that a suspended queue admits tasks again.
type QueueResumed struct {
	Queue string `json:"queue" example:"research" doc:"Name of the queue"`
	By    string `json:"by,omitempty" example:"ann" doc:"User who resumed it"`
}

// DAGEnding reports that no task of a job will start any more. The machines of the job are being released.
type DAGEnding struct {
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Queue   string `json:"queue" example:"research" doc:"Queue of the job"`
	Outcome string `json:"outcome" example:"succeeded" doc:"succeeded, failed or cancelled"`
}

// DAGSettled reports that all machines of an ending job have ended and their cost is booked.
type DAGSettled struct {
	Job string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	USD float64 `json:"usd" example:"4.02" doc:"What the job cost, USD"`
}

// DAGFinished reports that a job has finished.
type DAGFinished struct {
	Job     string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Name    string  `json:"name" example:"train-infer" doc:"Name its author gave it"`
	Outcome string  `json:"outcome" example:"succeeded" doc:"succeeded, failed or cancelled"`
	Reason  string  `json:"reason,omitempty" example:"" doc:"Why, if it did not succeed"`
	USD     float64 `json:"usd" example:"4.02" doc:"What it cost, USD"`
	Hours   float64 `json:"hours" example:"2.9" doc:"From submission to the end, hours"`
	// Announce is empty unless the job file names a topic.
	Announce string `json:"announce,omitempty" example:"pubsub://acme/jobs" doc:"Topic of the job file for this event"`
	// Notify contains not the list itself, because the URLs of webhooks are often secret.
	Notify bool `json:"notify,omitempty" example:"false" doc:"Whether the job file names recipients for this event"`
}

// TaskReady reports that all parents of a task have succeeded.
type TaskReady struct {
	Job   string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task  int    `json:"task" example:"1" doc:"Index of the task in the job"`
	Queue string `json:"queue" example:"research" doc:"Queue it waits in"`
	// Try counts the announcements of a task: the first, and one for each retry after its own failure.
	Try int `json:"try" example:"1" doc:"1, plus one for each retry after the task's own failure"`
	// Chunk is the number of next members of the task's array that run in its attempt.
	Chunk int `json:"chunk,omitempty" example:"7" doc:"Number of the next members of its array that run in the same attempt"`
	// Past is the number of the task's last attempt in which it was a member of another task's chunk.
	Past int `json:"past,omitempty" example:"1" doc:"Number of the last attempt that the task was part of, as a member of a chunk"`
}

// TaskAdmitted reports that a task may take capacity now.
type TaskAdmitted struct {
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task    int    `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt int    `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
}

// TaskStarted reports that the task's process runs on all nodes.
type TaskStarted struct {
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task    int    `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt int    `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
}

// TaskCheckpointed reports that progress was saved.
type TaskCheckpointed struct {
	Job      string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task     int     `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt  int     `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
	Seq      int     `json:"seq" example:"3" doc:"Sequence number of the checkpoint"`
	Progress float64 `json:"progress" example:"0.62" doc:"Fraction of the work done, 0 to 1, if known"`
}

// TaskSucceeded reports that a task ended with exit code 0 on all nodes and its outputs are stored.
type TaskSucceeded struct {
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task    int    `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt int    `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
	Cluster string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster to release; empty if there is nothing to release"`
	// Also are the other members of the task's chunk that have succeeded in the attempt. NotRun are those that did
	// not end.
	Also   []int `json:"also,omitempty" example:"2" doc:"Indexes of the other members of its array that have succeeded in the attempt"`
	NotRun []int `json:"notRun,omitempty" example:"3" doc:"Indexes of the members that should have run in the attempt and did not"`
}

// TaskFailed reports that a task's own work failed. Failures of clouds are not task failures.
type TaskFailed struct {
	Job      string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task     int    `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt  int    `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
	Cluster  string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster it ran on"`
	ExitCode int    `json:"exitCode" example:"2" doc:"Exit code of the task"`
	Message  string `json:"message" example:"run: FileNotFoundError: data.csv" doc:"Phase and last lines of its log"`
	// Final means that a retry is pointless, because the cloud rejected the request as invalid.
	Final bool `json:"final,omitempty" example:"false" doc:"Retrying is pointless"`
	// TimedOut means that the attempt was ended because it exceeded the task's timeout. It is not retried.
	TimedOut bool `json:"timedOut,omitempty" example:"false" doc:"Its timeout ended the attempt"`
	// Rank is the machine that failed first, of the Ranks machines of the attempt; Ranks is 0 if none failed by itself.
	Rank  int `json:"rank,omitempty" example:"2" doc:"Machine that failed first, counted from 0"`
	Ranks int `json:"ranks,omitempty" example:"4" doc:"Number of machines of the attempt"`
}

// ClusterUp reports that every node of a gang's cluster has connected. Other clusters receive their work at once
// (decision 6), without this event.
type ClusterUp struct {
	Cluster string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster ID"`
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
}

// ClusterLost reports that a cluster was preempted or fell silent before its task ended.
type ClusterLost struct {
	Cluster string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster ID"`
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Reason  string `json:"reason" example:"spot interruption" doc:"Why"`
}

// ClusterRelease requests the release of a cluster that is no longer needed.
type ClusterRelease struct {
	Cluster string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster ID"`
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Reason  string `json:"reason" example:"job cancelled" doc:"Why"`
}

// CapacityFreed reports that an attempt's machines have ended. It contains their cost, and their share of the queue's
// quota.
type CapacityFreed struct {
	Queue       string  `json:"queue" example:"research" doc:"Queue whose quota it counted against"`
	Job         string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Task        int     `json:"task" example:"1" doc:"Index of the task in the job"`
	Attempt     int     `json:"attempt" example:"1" doc:"Number of the attempt, from 1"`
	Cluster     string  `json:"cluster,omitempty" example:"train-infer-4k7q2a.1.1" doc:"Cluster that has ended, if there was one"`
	VCPU        float64 `json:"vcpu" example:"8" doc:"vCPUs freed"`
	USD         float64 `json:"usd" example:"1.93" doc:"Cost of the attempt, USD"`
	ReservedUSD float64 `json:"reservedUSD" example:"2.10" doc:"Part of the budget that was reserved for it, USD"`
	// Spot, Hours and Outcome are an observation of a spot market.
	Spot    string  `json:"spot,omitempty" example:"aws/us-east-1/use1-az1/p3.2xlarge" doc:"Spot offer it ran on, without the market"`
	Hours   float64 `json:"hours,omitempty" example:"2.1" doc:"Machine hours held there"`
	Outcome string  `json:"outcome,omitempty" example:"preempted" doc:"How the attempt ended there"`
}

// LocationBlocked reports that a location must not be tried until a time.
type LocationBlocked struct {
	Cloud        string    `json:"cloud" example:"aws" doc:"Cloud"`
	Region       string    `json:"region,omitempty" example:"us-east-1" doc:"Region; empty blocks the cloud"`
	Zone         string    `json:"zone,omitempty" example:"use1-az1" doc:"Zone; empty blocks the region"`
	InstanceType string    `json:"instanceType,omitempty" example:"p3.2xlarge" doc:"Machine type; empty blocks all"`
	Market       string    `json:"market,omitempty" example:"spot" doc:"spot, on-demand, or empty for both"`
	Kind         string    `json:"kind" example:"capacity" doc:"capacity, quota, auth or transient"`
	Until        time.Time `json:"until" example:"2026-11-21T09:30:00Z" doc:"When it may be tried again"`
}

// SpotInterrupted is a cloud's notice that it takes or has taken a machine.
type SpotInterrupted struct {
	Cluster string    `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster ID"`
	Job     string    `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Machine string    `json:"machine,omitempty" example:"i-0abc1234" doc:"The cloud's own ID of the machine"`
	Kind    string    `json:"kind" example:"interruption" doc:"interruption, rebalance or taken"`
	At      time.Time `json:"at" example:"2026-11-21T09:02:00Z" doc:"When it is, or was, taken"`
	Fault   string    `json:"fault,omitempty" example:"the broker may not use the key of its volume" doc:"With kind taken: the machine could not start, because of these settings of the account"`
}

// LeaseDue reports that the part of a queue's monthly budget that is reserved for an attempt is nearly used up. The
// handler reserves more, or stops the attempt.
type LeaseDue struct {
	Cluster string `json:"cluster" example:"train-infer-4k7q2a.1.1" doc:"Cluster ID"`
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Queue   string `json:"queue" example:"research" doc:"Queue of the job"`
}

// GangBroken reports that a task of a gang does not continue. The other tasks of the gang cannot, or need not,
// continue.
type GangBroken struct {
	Job     string `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Gang    string `json:"gang" example:"workers" doc:"Name of the gang"`
	Task    int    `json:"task" example:"0" doc:"Index of the task that does not continue"`
	Attempt int    `json:"attempt" example:"1" doc:"Number of its attempt"`
	Done    bool   `json:"done,omitempty" example:"false" doc:"It was the gang's chief and has succeeded: the others of the gang are finished with it"`
	Joining bool   `json:"joining,omitempty" example:"false" doc:"With done: only the tasks that join its role are finished"`
	// Failed and ExitCode select the gang's reactions. If Failed is false, the machines were preempted or did not
	// start.
	Failed   bool `json:"failed,omitempty" example:"false" doc:"Its script failed"`
	ExitCode int  `json:"exitCode,omitempty" example:"1" doc:"With failed: exit code of the script; 0 if it had not started or could not be ended"`
}

// PriceMoved reports that a spot price has moved away from the price on which the bids of the current plan are based.
type PriceMoved struct {
	Job     string  `json:"job" example:"train-infer-4k7q2a" doc:"Job ID"`
	Plan    int     `json:"plan" example:"2" doc:"Version of its current plan"`
	Offer   string  `json:"offer" example:"aws/us-east-1/use1-az1/p3.2xlarge" doc:"Offer whose price moved the most, without its market"`
	USD     float64 `json:"usd" example:"1.12" doc:"Current price, USD per hour"`
	FromUSD float64 `json:"fromUSD" example:"0.93" doc:"Price that the bids were based on, USD per hour"`
}

// PriceTick is a new spot price of an offer.
type PriceTick struct {
	Offer string  `json:"offer" example:"aws/us-east-1/use1-az1/p3.2xlarge" doc:"Offer ID without its market"`
	USD   float64 `json:"usd" example:"1.02" doc:"Spot price, USD per hour"`
	// Since is the time at which the price changed; zero means unknown.
	Since time.Time `json:"since,omitzero" example:"2026-11-21T09:00:00Z" doc:"When the price changed; if missing, the time of the event"`
}

// MarketTicked has new spot prices. Without prices, it is the schedule's request to load the prices.
type MarketTicked struct {
	Prices []PriceTick `json:"prices,omitempty" doc:"New prices"`
	// After, Until and Changed continue the handling of a tick if one invocation could not process all jobs.
	After   string         `json:"after,omitempty" example:"" doc:"Job after which to continue"`
	Until   string         `json:"until,omitempty" example:"" doc:"Last job to process; if missing, all that follow"`
	Changed []MarketChange `json:"changed,omitempty" doc:"The prices that have changed"`
}

// MarketChange is a changed price of an offer.
type MarketChange struct {
	Offer string  `json:"offer" example:"aws/us-east-1/use1-az1/p3.2xlarge" doc:"Offer ID without its market"`
	USD   float64 `json:"usd" example:"1.02" doc:"Spot price now, USD per hour"`
}

// CatalogRefresh requests that the catalogue is loaded again. The schedule sends it.
type CatalogRefresh struct{}

// BrokerReconcile requests a comparison of the records with the running machines. The schedule sends it. reconcile
// itself sends it if one invocation could not check everything.
type BrokerReconcile struct {
	After string `json:"after,omitempty" example:"" doc:"Job after which to continue"`
	Until string `json:"until,omitempty" example:"" doc:"Last job to check; if missing, all that follow"`
}
