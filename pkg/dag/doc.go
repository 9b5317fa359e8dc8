// Package dag is the job model of Tradewind: the [Job] type, its validation, and its graph.
//
// A job is a directed acyclic graph of batch tasks with an objective, a deadline and a budget
// (intercloud-broker paper, sections "Application Model" and "Optimizer").
//
// [github.com/tradewind-broker/tradewind/pkg/dag/read] reads jobs from files and detects the format by the content:
//
//   - Tradewind's own, YAML (or JSON) with apiVersion tradewind/v1, which [Marshal] writes from jobs of any form
//     ([github.com/tradewind-broker/tradewind/pkg/dag/native]);
//   - Kubernetes manifests ([github.com/tradewind-broker/tradewind/pkg/dag/kubernetes]);
//   - Slurm batch scripts ([github.com/tradewind-broker/tradewind/pkg/dag/slurm]);
//   - SkyPilot task files, WfCommons WfFormat 1.3 to 1.5, and Pegasus DAX 2 and 3.
//
// This package has the code that the readers share: how quantities are written, the checks of single values, and
// names (see [NewJob] and [Checked]).
//
// # Errors
//
// A reader stops at the first error and returns an [Error] that names file, line, column and field; it returns no
// part of the job. Readers accept files from strangers: every quantity is limited (see the constants), aliases and
// entities cannot multiply, nesting and decompression are limited, and memory is limited by the size of the file. If
// a reader understands a request of the file that Tradewind cannot fulfil, it adds a warning to the job; anything it
// does not understand is an error.
//
// # What it is not
//
// The package does not know offers and prices. Planning finds out whether a cloud has what a task requests, and
// reports errors with [Job.ErrorAt] at the line of the request.
package dag
