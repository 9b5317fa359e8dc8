// Package podtext is texts of manifests of which parts are known only where the pod runs, as its rank or its address.
// Such a text is written out where all of it is known. Else it is a word of a script, whose shell is told the rest by
// variables that the agent gives it. Which fields of a manifest are such texts is the reader's business.
package podtext

import (
	"strconv"
	"strings"
)

// Value is a text of which parts are known only where the pod runs.
type Value []Part

// Part is text, or what a shell makes of something.
type Part struct {
	Text string
	Ask  Ask
}

// Ask is what only the pod knows of itself.
type Ask int

// What a part can ask.
const (
	Literal   Ask = iota // nothing: the text is known
	Index                // its index among the pods of its job
	Job                  // the index of its job among the copies of a role
	Rank                 // its rank among the pods of its role
	Name                 // its name
	Address              // its address
	Machine              // the node's name
	GroupRank            // its rank among all pods of the group
	Head                 // the address of the group's first pod
	Total                // how many pods the group has
	ShellVar             // a variable of the shell; the text is its name
)

// Plain is a text that is known everywhere.
func Plain(s string) Value { return Value{{Text: s}} }

// Place is where a pod, or a range of pods that differ by rank only, runs.
type Place struct {
	Name       string // of the role's pods, before the index
	First      int    // rank of the first of them in their task
	PerJob     int    // pods of one job of the role
	Alone      int    // the rank of the pod in its role where it is a task of its own, else negative
	Total      int    // pods of the task, or of the role whose pods are tasks of their own
	JobsInName bool   // the name has the index of the job, too
	Gang       bool   // the task is one of several that the group is made of
}

// Shell is the text as one word of a script.
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
		b.WriteString(`"` + part.Ask.shell(p, part.Text) + `"`)
	}
	return b.String()
}

// At is the text at a place, where all of it is known there.
func (v Value) At(p Place) (string, bool) {
	var b strings.Builder
	for _, part := range v {
		switch {
		case part.Ask == Literal:
			b.WriteString(part.Text)
		case part.Ask == Total:
			b.WriteString(strconv.Itoa(p.Total))
		case p.Alone < 0:
			return "", false
		case part.Ask == Index:
			b.WriteString(strconv.Itoa(p.Alone % p.PerJob))
		case part.Ask == Job:
			b.WriteString(strconv.Itoa(p.Alone / p.PerJob))
		case part.Ask == Rank, part.Ask == GroupRank && !p.Gang:
			b.WriteString(strconv.Itoa(p.Alone))
		case part.Ask == Name:
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

// shell is what a shell expands to the answer, within double quotes.
func (a Ask) shell(p Place, name string) string {
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

// Quote is a word of a script that a shell takes as it is.
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

// Variable is one of a pod's environment.
type Variable struct {
	Name string
	Value
	Secret bool // given apart; its value stays out of the script
	Given  bool // by who hands the job in: the whole task has it, and nothing else of its name counts
}

// Expand puts the values of variables in the place of $(NAME), as the kubelet does: $$ is a $, and what is not a
// variable stays as it is.
func Expand(s string, env []Variable) Value {
	find := func(name string) (Value, bool) {
		for i := len(env) - 1; i >= 0; i-- {
			if env[i].Name == name {
				if env[i].Secret {
					return Value{{Text: name, Ask: ShellVar}}, true
				}
				return env[i].Value, true
			}
		}
		return nil, false
	}
	var out Value
	var text strings.Builder
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
		end := strings.IndexByte(s[i:], ')')
		if s[i+1] != '(' || end < 0 {
			text.WriteByte('$')
			continue
		}
		v, ok := find(s[i+2 : i+end])
		if !ok {
			text.WriteString(s[i : i+end+1])
		} else {
			flush()
			out = append(out, v...)
		}
		i += end
	}
	flush()
	if out == nil {
		out = Plain("")
	}
	return out
}
