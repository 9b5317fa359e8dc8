// Package view turns records into the views of users and clients: jobs, tasks, queues, pools, and the story of a job.
// Its types are the JSON of the API and the command line.
package view
