// Package view is what people and programs are shown of the records: jobs, tasks, queues, pools, and the story of a
// job. Its types are the JSON of the API and of the command line.
package view
