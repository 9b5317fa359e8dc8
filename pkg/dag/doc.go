// Package dag is the job model of Tradewind: what a [Job] is, whether it is valid, and how it is walked.
//
// A job is a directed acyclic graph of batch tasks with an objective, a deadline and a budget
// (intercloud-broker paper, sections "Application Model" and "Optimizer").
//
// Jobs are read from files by the packages below, one a form:
//
//   - [github.com/tradewind-broker/tradewind/pkg/dag/native]: Tradewind's own, YAML (or JSON) with apiVersion
//     tradewind/v1, which [Marshal] writes from jobs of any form;
//   - [github.com/tradewind-broker/tradewind/pkg/dag/skypilot]: SkyPilot task files;
//   - [github.com/tradewind-broker/tradewind/pkg/dag/wfformat]: WfCommons WfFormat 1.3 to 1.5;
//   - [github.com/tradewind-broker/tradewind/pkg/dag/dax]: Pegasus DAX 2 and 3.
//
// [github.com/tradewind-broker/tradewind/pkg/dag/read] tells them apart by content, and is what programs call. What
// readers share is here: how quantities are written, the checks of single values, and names (see [NewJob] and
// [Checked]).
//
// # Errors
//
// A reader stops at the first thing wrong and returns an [Error] that names file, line, column and
// field; nothing of the job is returned with it. Readers are for files from strangers: every
// quantity is limited (see the constants), aliases and entities cannot multiply, nesting and
// decompression are bounded, and memory is bounded by the size of the file. What a file asks for
// that is understood but has no counterpart here becomes a warning of the job; what is not
// understood is an error.
//
// # What it is not
//
// The package knows nothing of offers and prices: whether some cloud has what a task asks for is
// found by planning, which reports it with [Job.ErrorAt] at the line that asked.
package dag
