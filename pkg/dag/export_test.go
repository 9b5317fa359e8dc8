package dag

// The tests of the package are outside of it.
var (
	FormatMemory  = formatMemory
	FormatRange   = formatRange
	ParseMemory   = parseMemory
	Processors    = processors
	SparkReleases = sparkReleases
)
