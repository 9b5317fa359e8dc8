package skypilot

// Corrections are those of machine types, by cloud.
var Corrections = corrections
