// Package policy is the language that configures the decisions of sessions of package
// scheduler: actions, and plugins in tiers with their settings ([Policy]).
// [Read] reads a policy from YAML; its errors point to line and field.
//
// The caller passes the known names as a [Vocabulary]; scheduler.ReadPolicy uses
// those of the scheduler. The file format is stable; names are only added.
package policy
