package cli

// QueuedJobs returns the IDs of the unfinished jobs of a queue and of the queues below it.
var QueuedJobs = queuedJobs
