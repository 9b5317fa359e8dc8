// Package life has the decisions of a job's life: that it begins, which of its tasks are ready, what follows from one
// that succeeded or failed, what it goes by when it is planned, for what it waits where there is no plan, and its end.
// They are functions of records, events and a moment. What becomes of one attempt of a task is package attempt's.
package life
