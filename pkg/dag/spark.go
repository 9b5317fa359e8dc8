package dag

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// SparkApp is a Spark application: what spark-submit starts.
type SparkApp struct {
	// Main is the application: a Python file or a jar, as a path below the task's directory or as a URI.
	Main string `json:"main"`
	// Class is the main class of a jar.
	Class string `json:"class,omitempty"`
	// Args are its arguments. In them, $NAME and ${NAME} stand for a variable of the task, and $$ for a dollar sign.
	Args []string `json:"args,omitempty"`
	// PyFiles are Python files, and zips and eggs of them, that Main imports. Jars are on its class path. Both are
	// paths or URIs, as Main.
	PyFiles []string `json:"pyFiles,omitempty"`
	Jars    []string `json:"jars,omitempty"`
	// Packages are libraries of Maven Central: GROUP:ARTIFACT:VERSION.
	Packages []string `json:"packages,omitempty"`
	// Conf are properties of Spark: spark.sql.shuffle.partitions.
	Conf map[string]string `json:"conf,omitempty"`
	// Version is the wanted version of Spark: 3.5, 3.5.1 or 3.5+; empty is [DefaultSpark].
	Version string `json:"version,omitempty"`
}

// mavenPackage is GROUP:ARTIFACT:VERSION.
var mavenPackage = jobtext.Lazy(`^[A-Za-z0-9._-]+:[A-Za-z0-9._-]+:[A-Za-z0-9._+-]+$`)

// className is the name of a class with its package.
var className = jobtext.Lazy(`^[\p{L}_$][\p{L}\p{N}_$]*(\.[\p{L}_$][\p{L}\p{N}_$]*)*$`)

// Check returns an error if the application is invalid. Its field is relative to spark.
func (a *SparkApp) Check() error {
	python := strings.HasSuffix(a.Main, ".py")
	switch {
	case a.Main == "":
		return fault.Within("main", fault.New("is missing", "add the Python file or jar: main: jobs/etl.py"))
	case !python && !strings.HasSuffix(a.Main, ".jar"):
		return fault.Within("main", fault.New(fault.Quote(a.Main)+" is neither a Python file nor a jar",
			"name a file that ends in .py or .jar"))
	case !python && a.Class == "":
		return fault.Within("main", fault.New("a jar needs its main class", "add class: org.example.Main"))
	case python && a.Class != "":
		return fault.Within("class", fault.New("only a jar has a main class", "remove it"))
	case !python && len(a.PyFiles) > 0:
		return fault.Within("pyFiles", fault.New("a jar cannot use Python files",
			"list the libraries of a jar in the field jars"))
	case a.Class != "" && !className().MatchString(a.Class):
		return fault.Within("class", fault.New(fault.Quote(a.Class)+" is not a class", "such as org.example.Main"))
	}
	if err := cmp.Or(
		fault.Within("main", checkSparkFile(a.Main)),
		fault.Within("version", ifSet(a.Version, checkSparkVersion)),
		checkSparkFiles("pyFiles", a.PyFiles, ".py", ".zip", ".egg"),
		checkSparkFiles("jars", a.Jars, ".jar"),
		checkList("packages", a.Packages, jobtext.MaxSparkFiles, func(s string) error {
			return matches(mavenPackage(), s,
				" is not a Maven package", "GROUP:ARTIFACT:VERSION, such as io.delta:delta-spark_2.12:3.2.0")
		}),
		checkList("args", a.Args, jobtext.MaxSparkArgs, checkSparkText),
	); err != nil {
		return err
	}
	return fault.Within("conf", checkSparkConf(a.Conf))
}

func matches(pattern *regexp.Regexp, s, reason, hint string) error {
	if !pattern.MatchString(s) {
		return fault.New(fault.Quote(s)+reason, hint)
	}
	return nil
}

func checkList(field string, list []string, most int, check func(string) error) error {
	if len(list) > most {
		return fault.Within(field, fault.OverLimit(fmt.Sprintf("%d entries, more than %d", len(list), most), ""))
	}
	return eachChecked(field, list, func(s *string) error { return check(*s) })
}

func checkSparkFiles(field string, files []string, kinds ...string) error {
	return checkList(field, files, jobtext.MaxSparkFiles, func(s string) error {
		if !slices.Contains(kinds, path.Ext(s)) {
			return fault.New(fault.Quote(s)+" has the wrong kind",
				"name a file that ends in "+strings.Join(kinds, ", "))
		}
		return checkSparkFile(s)
	})
}

// checkSparkFile checks a file of a Spark application: a path below the task's directory, or a URI. spark-submit splits
// lists of them at commas.
func checkSparkFile(s string) error {
	if strings.ContainsAny(s, ", ") {
		return fault.New(fault.Quote(s)+" has a comma or a space", "rename the file")
	}
	if strings.Contains(s, "://") {
		return jobtext.CheckURI(s)
	}
	return jobtext.CheckInside(s)
}

func checkSparkText(s string) error {
	if len(s) > jobtext.MaxTextBytes {
		return fault.OverLimit(fmt.Sprintf("has %d bytes, more than %d", len(s), jobtext.MaxTextBytes), "")
	}
	return fault.CheckString(s)
}

func checkSparkVersion(s string) error {
	_, err := ParseVersionRange(s)
	if err != nil {
		return fault.New(fault.Quote(s)+" is not a version of Spark", "write 3.5, 3.5.1 or 3.5+")
	}
	return nil
}

// placeProperties are the properties of Spark that the broker sets: they depend on the place.
var placeProperties = []string{"spark.master", "spark.submit.deployMode", "spark.submit.pyFiles", "spark.jars",
	"spark.jars.packages"}

func checkSparkConf(conf map[string]string) error {
	if len(conf) > jobtext.MaxSparkConf {
		return fault.OverLimit(fmt.Sprintf("%d properties, more than %d", len(conf), jobtext.MaxSparkConf), "")
	}
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		err := checkSparkText(conf[name])
		switch {
		case !strings.HasPrefix(name, "spark.") || strings.ContainsAny(name, " \t\r\n=:"):
			err = fault.New("is not a property of Spark", "the names of Spark's properties begin with spark.")
		case strings.ContainsAny(conf[name], "\r\n"):
			err = fault.New("has several lines", "write it on one line")
		case name == "spark.master" || name == "spark.submit.deployMode":
			err = fault.New("depends on the place, which the broker chooses", "remove it")
		case slices.Contains(placeProperties, name):
			err = fault.New("has a field of its own", "write pyFiles, jars or packages next to main")
		}
		if err != nil {
			return fault.WithinKey(name, err)
		}
	}
	return nil
}

// HasSpark reports whether a task of the job is a Spark task.
func (j *Job) HasSpark() bool {
	return slices.ContainsFunc(j.Tasks, func(t Task) bool { return t.Spark != nil })
}

// CheckSpark returns an error if the task has an application and fields that such a task cannot have. The error is
// about an alternative, as in Marks: a machine, a service (from ServiceAlternative on), or FilesOfTask for the task
// itself.
func (t *Task) CheckSpark() (alternative int, err error) {
	if t.Spark == nil {
		return t.checkNoSpark()
	}
	refused := func(field, why, hint string) error {
		return fault.Within(field, fault.New("a Spark task "+why, hint))
	}
	switch {
	case t.Run != "":
		err = refused("run", "starts its application, not a script", "remove run, or spark")
	case t.Recorded != 0:
		err = refused("recorded", "has an application to run", "remove it")
	case t.Framework != "":
		err = refused("framework", "sets it itself", "remove it")
	case t.Gang != "" || t.Joins != "":
		err = refused("gang", "has its machines for itself", "write executors in resources")
	default:
		err = cmp.Or(fault.Within("spark", t.Spark.Check()), fault.Within("executors", checkExecutors(t.Executors)))
	}
	if err == nil && t.Nodes != t.sparkNodes() {
		err = refused("nodes", "has executors",
			fmt.Sprintf("write resources: {executors: %d} in place of nodes", t.Nodes))
	}
	if err != nil {
		return FilesOfTask, err
	}
	for i := range t.Resources {
		if t.Nodes > 1 && t.Resources[i].Container() != "" {
			return i, fault.Within("image", fault.New("executors on several machines cannot run in a container",
				"remove the image, or write executors: 1"))
		}
	}
	return t.checkServices()
}

// checkNoSpark is CheckSpark for a task without an application.
func (t *Task) checkNoSpark() (alternative int, err error) {
	switch {
	case len(t.Services) > 0:
		return ServiceAlternative, fault.Within("service", fault.New(fault.Quote(t.Services[0].Service)+
			" runs only Spark applications", "write spark: {main: …} in place of run"))
	case !t.Executors.IsZero():
		return FilesOfTask, fault.Within("executors", fault.New("only a Spark task has executors",
			"add spark: {main: …}, or write nodes"))
	}
	return FilesOfTask, nil
}

// validateSpark is CheckSpark with the field of its alternative.
func (t *Task) validateSpark() error {
	alternative, err := t.CheckSpark()
	switch {
	case err == nil || alternative == FilesOfTask:
		return err
	case alternative >= ServiceAlternative:
		return fault.Within("services"+fault.Index(alternative-ServiceAlternative), err)
	case len(t.Resources) > 1:
		return fault.Within("resources"+fault.Index(alternative), err)
	}
	return fault.Within("resources", err)
}

// checkExecutors checks a number of executors: exactly N, or from M to N.
func checkExecutors(r Range) error {
	if r.IsZero() {
		return nil
	}
	if r.Min < 1 || r.Max < r.Min || r.Max > MaxNodes || r.Min != float64(int(r.Min)) || r.Max != float64(int(r.Max)) {
		return fault.New(fmt.Sprintf("from %v to %v executors", r.Min, r.Max),
			fmt.Sprintf("write 4, or 2-10; from 1 to %d", MaxNodes))
	}
	return nil
}

// ParseExecutors reads a number of executors: 4, or 2-10.
func ParseExecutors(s string) (Range, error) {
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		to = from
	}
	least, err := strconv.Atoi(strings.TrimSpace(from))
	most, err2 := strconv.Atoi(strings.TrimSpace(to))
	r := Range{Min: float64(least), Max: float64(most)}
	if err := cmp.Or(err, err2); err != nil || r.IsZero() {
		return Range{}, fault.New(fault.Quote(s)+" is not a number of executors", "write 4, or 2-10")
	}
	return r, checkExecutors(r)
}

// FormatExecutors writes a number of executors as ParseExecutors reads it.
func FormatExecutors(r Range) string {
	if r.Min == r.Max {
		return jobtext.FormatNumber(r.Min)
	}
	return jobtext.FormatNumber(r.Min) + "-" + jobtext.FormatNumber(r.Max)
}

// sparkNodes returns the number of machines of a Spark task that does not run on a service: its minimum number of
// executors, at least 1.
func (t *Task) sparkNodes() int { return max(int(t.Executors.Min), 1) }

// MakeSpark sets the fields of a Spark task that follow from its application: the number of machines, and an input for
// each file of the application. A file with a path gets no input if the task has a working directory or a repository,
// because that contains the file. added is called for each new input with the field that names it.
func (t *Task) MakeSpark(added func(field string)) {
	if t.Spark == nil {
		return
	}
	t.Nodes = t.sparkNodes()
	add := func(field, file string) {
		in := Input{URI: file, Path: SparkPath(file)}
		local := !strings.Contains(file, "://")
		if local && (t.Workdir != "" || t.Repository != nil) ||
			slices.ContainsFunc(t.Inputs, func(has Input) bool { return has.Path == in.Path }) {
			return
		}
		t.Inputs = append(t.Inputs, in)
		added(field)
	}
	add("main", t.Spark.Main)
	for i, f := range t.Spark.PyFiles {
		add("pyFiles"+fault.Index(i), f)
	}
	for i, f := range t.Spark.Jars {
		add("jars"+fault.Index(i), f)
	}
}

// SparkPath returns the path below the task's directory at which a machine has a file of a Spark application.
func SparkPath(file string) string {
	if strings.Contains(file, "://") {
		return path.Base(file)
	}
	return path.Clean(file)
}

// sparkServices are the services that run Spark applications, each with its cloud.
var sparkServices = map[string]string{
	"emr": "aws", "emr-serverless": "aws", "dataproc": "gcp", "dataproc-serverless": "gcp",
}

// ServiceCloud returns the cloud of a service that runs Spark.
func ServiceCloud(service string) string { return sparkServices[service] }

// SparkServices returns the services that run Spark applications, sorted.
func SparkServices() []string { return slices.Sorted(maps.Keys(sparkServices)) }

// The size of an executor of a serverless service if the task states none: that of EMR Serverless and Dataproc
// Serverless.
const (
	defaultExecutorVCPUs = 4
	defaultExecutorGiB   = 16
)

// ExecutorSize returns the vCPUs and the memory in GiB of an executor, and of the driver, on an alternative that is a
// serverless service.
func (t *Task) ExecutorSize(r *Resources) (vcpus, gib int) {
	vcpus, gib = int(r.CPUs.Min), int(r.Memory.Min)
	if vcpus < 1 {
		vcpus = defaultExecutorVCPUs
	}
	if gib < 1 {
		gib = defaultExecutorGiB
	}
	return vcpus, gib
}

// ServiceNamed returns the task's first alternative with a service; nil if there is none.
func (t *Task) ServiceNamed(service string) *Resources {
	for i := range t.Services {
		if t.Services[i].Service == service {
			return &t.Services[i]
		}
	}
	return nil
}

// checkServices checks the alternatives of a Spark task that are services.
func (t *Task) checkServices() (alternative int, err error) {
	for i := range t.Services {
		if err := t.Services[i].checkAsService(t); err != nil {
			return ServiceAlternative + i, err
		}
	}
	if len(t.Services) > 0 && t.Ordered {
		err = fault.New("cannot be one of ordered alternatives yet", "write anyOf in place of ordered")
	}
	return ServiceAlternative, fault.Within("service", err)
}

// checkAsService checks an alternative that is a service. The field of its error is relative to the alternative.
func (r *Resources) checkAsService(t *Task) error {
	if err := cmp.Or(fault.Within("service", CheckSparkService(r.Service)), r.validate()); err != nil {
		return err
	}
	cannot := func(field, why, hint string) error {
		return fault.Within(field, fault.New(r.Service+" "+why, hint))
	}
	cloud := sparkServices[r.Service]
	switch {
	case r.Cloud != "" && r.Cloud != cloud:
		return cannot("cloud", "is a service of "+cloud+", not of "+r.Cloud, "write cloud: "+cloud+", or remove it")
	case r.Image != "":
		return cannot("image", "has its own image", "remove it; release chooses the version of Spark")
	case r.Accelerator != "":
		return cannot("accelerators", "is bought without accelerators", "remove them")
	case r.InstanceType != "" && strings.HasSuffix(r.Service, "-serverless"):
		return cannot("instanceType", "has no machine types", "remove it")
	case r.Family != "" && strings.HasSuffix(r.Service, "-serverless"):
		return cannot("family", "has no machine types", "remove it")
	case r.CPU != "" && strings.HasSuffix(r.Service, "-serverless"):
		return cannot("cpu", "has no machine types", "remove it")
	case r.Zone != "":
		return cannot("zone", "is bought in a region", "write region")
	}
	if _, err := ChooseSparkRelease(r.Service, r.Release, t.Spark.Version); err != nil {
		return fault.Within("service", err)
	}
	what := func(has bool, name string) string {
		if has {
			return name
		}
		return ""
	}
	if field := cmp.Or(what(t.Setup != "", "setup"), what(t.Login, "login"), what(t.Checkpoint != nil, "checkpoint"),
		what(len(t.Secrets) > 0, "secrets"), what(t.Mounts(), "a mounted input")); field != "" {
		return cannot("service", "cannot have "+field, "remove it, or the service")
	}
	return nil
}

// CheckSparkService returns an error if s is not the name of a service that runs Spark.
func CheckSparkService(s string) error {
	return fault.CheckWord("service", s, SparkServices()...)
}

// ServiceAlternative is the alternative in the Marks of the first of a task's Services.
const ServiceAlternative = jobtext.MaxAlternatives
