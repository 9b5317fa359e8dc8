// Package podtext has texts of manifests with parts that are known only when the pod runs, such as its rank or its
// address. A text without such parts is used as it is. Any other text becomes a word of a shell script, which gets
// the missing parts from variables that the agent sets. The package does not know which fields of a manifest are such
// texts.
package podtext

import (
	"strconv"
	"strings"
)

// Value is a text with parts that may be known only when the pod runs.
type Value []Part

// Part is either a fixed text or a fact that the shell inserts.
type Part struct {
	Text string
	Fact Fact
}

// Fact is a fact about the pod that is known only when it runs.
type Fact int

// The facts.
const (
	Literal   Fact = iota // none: Text is the text
	Index                 // its index among the pods of its job
	Job                   // the index of its job among the copies of a role
	Rank                  // its rank among the pods of its role
	Name                  // its name
	Address               // its address
	Machine               // the node's name
	GroupRank             // its rank among all pods of the group
	Head                  // the address of the group's first pod
	Total                 // the number of pods of the group
	ShellVar              // a shell variable; Text is its name
)

// Plain returns a fixed text.
func Plain(s string) Value { return Value{{Text: s}} }

// Place describes a pod, or a range of pods that differ only by rank.
type Place struct {
	Name       string // of the role's pods, without the index
	First      int    // rank of the first of them in their task
	PerJob     int    // pods of one job of the role
	Alone      int    // the rank of the pod in its role if it is a separate task, otherwise negative
	Total      int    // pods of the task, or of the role if its pods are separate tasks
	JobsInName bool   // the name also has the index of the job
	Gang       bool   // the group consists of several tasks
}

// Shell returns the text as one word of a shell script.
func (v Value) Shell(p Place) string {
	if len(v) == 0 {
		return "''"
	}
	if s, ok := v.At(p); ok {
		return Quote(s)
	}
	var b strings.Builder
	for _, part := range v {
		if s, ok := (Value{part}).At(p); ok {
			if s != "" {
				b.WriteString(Quote(s))
			}
			continue
		}
		b.WriteString(`"` + part.Fact.shell(p, part.Text) + `"`)
	}
	return b.String()
}

// At returns the text for a place; it returns false if parts of it are not known yet.
func (v Value) At(p Place) (string, bool) {
	var b strings.Builder
	for _, part := range v {
		switch {
		case part.Fact == Literal:
			b.WriteString(part.Text)
		case part.Fact == Total:
			b.WriteString(strconv.Itoa(p.Total))
		case p.Alone < 0:
			return "", false
		case part.Fact == Index:
			b.WriteString(strconv.Itoa(p.Alone % p.PerJob))
		case part.Fact == Job:
			b.WriteString(strconv.Itoa(p.Alone / p.PerJob))
		case part.Fact == Rank, part.Fact == GroupRank && !p.Gang:
			b.WriteString(strconv.Itoa(p.Alone))
		case part.Fact == Name:
			b.WriteString(p.podName(p.Alone))
		default:
			return "", false
		}
	}
	return b.String(), true
}

func (p Place) podName(rank int) string {
	if p.JobsInName {
		return p.Name + "-" + strconv.Itoa(rank/p.PerJob) + "-" + strconv.Itoa(rank%p.PerJob)
	}
	return p.Name + "-" + strconv.Itoa(rank)
}

// shell returns the shell expansion for the fact, for use within double quotes.
func (a Fact) shell(p Place, name string) string {
	rank := "$TRADEWIND_NODE_RANK"
	if p.First > 0 {
		rank = "$((TRADEWIND_NODE_RANK-" + strconv.Itoa(p.First) + "))"
	}
	inJob, ofJobs := rank, "0"
	if p.PerJob == 1 {
		inJob, ofJobs = "0", rank
	} else if p.First+p.PerJob < p.Total || p.JobsInName {
		from := "(TRADEWIND_NODE_RANK-" + strconv.Itoa(p.First) + ")"
		inJob, ofJobs = "$(("+from+"%"+strconv.Itoa(p.PerJob)+"))", "$(("+from+"/"+strconv.Itoa(p.PerJob)+"))"
	}
	switch a {
	case Index:
		return inJob
	case Job:
		return ofJobs
	case Rank:
		return rank
	case Name:
		if p.JobsInName {
			return p.Name + "-" + ofJobs + "-" + inJob
		}
		return p.Name + "-" + rank
	case Address:
		return "$POD_ADDRESS"
	case Machine:
		return "$TRADEWIND_MACHINE"
	case GroupRank:
		if p.Gang {
			return "$TRADEWIND_GANG_RANK"
		}
		return "$TRADEWIND_NODE_RANK"
	case Head:
		if p.Gang {
			return "$TRADEWIND_GANG_HEAD"
		}
		return "$TRADEWIND_HEAD"
	case Total:
		return "$TRADEWIND_NUM_NODES"
	}
	return "${" + name + "}"
}

// Quote returns s as one word of a shell script, with quotes if it needs them.
func Quote(s string) string {
	plain := s != ""
	for i := 0; plain && i < len(s); i++ {
		c := s[i]
		plain = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("_-./:,@%+", c) >= 0
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Variable is an environment variable of a pod.
type Variable struct {
	Name string
	Value
	Secret bool // passed separately, so the script does not contain its value
	Given  bool // set at submission for the whole task; it overrides all others of its name
}

// MaxExpanded limits a text that Expand returns, in bytes. Otherwise, if each variable contained
// the one before twice, the text would double with each variable. A longer text is cut, and is too
// long for a script.
const MaxExpanded = 1 << 20

// Size returns about the size of the text of a value, in bytes.
func (v Value) Size() int {
	size := 0
	for _, part := range v {
		size += len(part.Text) + 1
	}
	return size
}

// Expand replaces $(NAME) with the values of variables, as the kubelet does: $$ becomes $, and unknown names stay
// unchanged.
func Expand(s string, env []Variable) Value {
	find := func(name string) (Value, bool) {
		for i := len(env) - 1; i >= 0; i-- {
			if env[i].Name == name {
				if env[i].Secret {
					return Value{{Text: name, Fact: ShellVar}}, true
				}
				return env[i].Value, true
			}
		}
		return nil, false
	}
	var out Value
	var text strings.Builder
	size, closed := 0, strings.LastIndexByte(s, ')')
	flush := func() {
		if text.Len() > 0 {
			out = append(out, Part{Text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			text.WriteByte(s[i])
			continue
		}
		if s[i+1] == '$' {
			text.WriteByte('$')
			i++
			continue
		}
		if s[i+1] != '(' || closed < i {
			text.WriteByte('$')
			continue
		}
		end := strings.IndexByte(s[i:], ')')
		v, ok := find(s[i+2 : i+end])
		if !ok {
			text.WriteString(s[i : i+end+1])
		} else {
			flush()
			out = append(out, v...)
			if size += v.Size(); size > MaxExpanded {
				return out
			}
		}
		i += end
	}
	flush()
	if out == nil {
		out = Plain("")
	}
	return out
}
