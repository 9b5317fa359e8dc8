package view

import "github.com/tradewind-broker/tradewind/pkg/apitypes"

// SameTask reports whether a view of a task is unchanged. It ignores After, which never changes.
func SameTask(a, b apitypes.TaskView) bool {
	return a.State == b.State && a.Progress == b.Progress && a.Attempts == b.Attempts && a.USD == b.USD &&
		[3]string{a.Offer, a.Accelerators, a.Output} == [3]string{b.Offer, b.Accelerators, b.Output} &&
		a.KeptUntil.Equal(b.KeptUntil) &&
		a.USDPerHour == b.USDPerHour && a.Hours == b.Hours && a.Started.Equal(b.Started) && a.Ended.Equal(b.Ended) &&
		a.Service == b.Service && a.Ready == b.Ready && a.Address == b.Address && a.Unready == b.Unready &&
		a.Reason == b.Reason && a.Waits == b.Waits && a.Unsaved == b.Unsaved &&
		a.Name == b.Name && a.Index == b.Index && a.Nodes == b.Nodes
}

// SameAttempt reports whether an attempt is unchanged. It ignores fields that do not change after its admission.
func SameAttempt(a, b apitypes.Attempt) bool {
	return a.Number == b.Number && a.Task == b.Task && a.Outcome == b.Outcome && a.Reason == b.Reason &&
		a.USD == b.USD && a.EgressUSD == b.EgressUSD && a.ReservedUSD == b.ReservedUSD &&
		a.RateUSD == b.RateUSD && a.Resumed == b.Resumed && a.KeptUntil.Equal(b.KeptUntil) &&
		a.ResumedFrom == b.ResumedFrom && a.Launched.Equal(b.Launched) &&
		a.Up.Equal(b.Up) && a.Started.Equal(b.Started) && a.Ended.Equal(b.Ended)
}
