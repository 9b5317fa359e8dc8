// Package policy is the language in which somebody says how sessions of package
// scheduler decide: actions, and plugins in tiers with their settings ([Policy]).
// [Read] reads one from YAML and names line and field of what is wrong.
//
// What there is to be named, a [Vocabulary], is the caller's: scheduler.ReadPolicy
// has that of the scheduler. The form of the file is stable; names are only added.
package policy
