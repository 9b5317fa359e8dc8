// Package dag is the job model of Tradewind: the [Job] type, its validation, and its graph.
//
// A job is a directed acyclic graph of batch tasks with an objective, a deadline and a budget
// (intercloud-broker paper, sections "Application Model" and "Optimizer").
//
// Each package below reads jobs from one file format:
//
//   - [github.com/tradewind-broker/tradewind/pkg/dag/native]: Tradewind's own, YAML (or JSON) with apiVersion
//     tradewind/v1, which [Marshal] writes from jobs of any form;
//   - [github.com/tradewind-broker/tradewind/pkg/dag/internal/skypilot]: SkyPilot task files;
//   - [github.com/tradewind-broker/tradewind/pkg/dag/internal/wfformat]: WfCommons WfFormat 1.3 to 1.5;
//   - [github.com/tradewind-broker/tradewind/pkg/dag/internal/dax]: Pegasus DAX 2 and 3.
//
// [github.com/tradewind-broker/tradewind/pkg/dag/read] detects the format by the content; programs call this package.
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
