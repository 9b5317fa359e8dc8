// Package view turns records into what users and clients see: jobs, tasks, queues, pools, and the story of a job. Its
// types are the JSON of the API and the command line.
package view
