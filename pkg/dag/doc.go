// Package dag is the job model of Tradewind, and the readers that make a [Job] of a file.
//
// A job is a directed acyclic graph of batch tasks with an objective, a deadline and a budget
// (intercloud-broker paper, sections "Application Model" and "Optimizer"). Four forms are read:
//
//   - the native form, YAML (or JSON) with apiVersion tradewind/v1, which [Schema] describes to editors;
//   - SkyPilot task files, one YAML document a task, several documents a chain;
//   - WfCommons WfFormat 1.3 to 1.5, the JSON of recorded workflow executions;
//   - Pegasus DAX 2 and 3, XML.
//
// [Read] and [ReadFile] tell them apart by content and take each of them gzipped. [Marshal] writes
// any job in the native form, so that an imported file can be converted.
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
