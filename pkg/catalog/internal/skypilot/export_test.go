package skypilot

// Corrections exports corrections. Its keys are cloud and machine type.
var Corrections = corrections
