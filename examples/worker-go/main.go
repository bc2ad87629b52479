// The toolset "primes": what a worker in Go offers. wire.go has the protocol.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// between lists the primes of a range, and reports each tenth of it.
func between(ctx context.Context, arguments json.RawMessage, progress func(int, int, string)) (any, error) {
	var asked struct{ From, To, Pause_ms int }
	err := json.Unmarshal(arguments, &asked) // The edge checks the schema too, but others may call.
	if err != nil || asked.From < 0 || asked.To < asked.From || asked.To > 5_000_000 || asked.Pause_ms < 0 || asked.Pause_ms > 60_000 {
		return nil, Fault{Code: "invalid_argument", Message: "from and to must be integers in order, from 0 to 5000000."}
	}
	composite := make([]bool, asked.To+1) // the sieve of Eratosthenes
	for p := 2; p*p <= asked.To; p++ {
		for n := p * p; n <= asked.To && !composite[p]; n += p {
			composite[n] = true
		}
	}
	found, total, text := 0, asked.To-asked.From+1, []byte(nil)
	for done := 1; done <= total; done++ {
		if n := asked.From + done - 1; n > 1 && !composite[n] {
			found, text = found+1, fmt.Appendln(text, n)
		}
		if done%(total/10+1) == 0 {
			progress(done, total, fmt.Sprintf("%d primes", found))
			select {
			case <-ctx.Done(): // cancelled, too late, or the worker stops
				return nil, context.Cause(ctx)
			case <-time.After(time.Duration(asked.Pause_ms) * time.Millisecond):
			}
		}
	}
	if found == 0 {
		return nil, Fault{Code: "not_found", Message: "No prime is between from and to. Ask for a wider range."}
	}
	return object{"content": []object{{"type": "text", "text": string(text)}}}, nil
}

func main() {
	Serve("primes", "1.0.0", object{
		"name": "between", "toolset": "primes", "title": "List prime numbers",
		"description": "List the prime numbers between two numbers.", "keywords": []string{"mathematics"},
		"input_schema": object{"type": "object", "required": []string{"from", "to"}, "properties": object{
			"from": object{"type": "integer", "minimum": 0, "maximum": 5_000_000, "description": "The first number."}, "to": object{"type": "integer", "minimum": 0, "maximum": 5_000_000, "description": "The last number."},
			"pause_ms": object{"type": "integer", "minimum": 0, "maximum": 60_000, "description": "Pause after each tenth of the range."}}},
	}, between)
}
