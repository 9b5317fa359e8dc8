package skypilot

// Corrections exports corrections, which are by cloud and machine type.
var Corrections = corrections
