//go:build js

// The engine of Rego evaluations: OPA behind three functions that take and return JSON. See README.md.
package main

import (
	"bytes"
	"encoding/json"
	"runtime/debug"
	"syscall/js"
)

// main gives the functions to the host, which calls one at a time, and stays for as long as the host keeps the instance.
//
//	check(request)              -> reply
//	evaluate(request, isOver, input)   -> reply
//	test(request, isOver)              -> reply
//
// request and input are JSON in a Uint8Array, reply is JSON in a string; isOver tells whether the time is over.
func main() {
	// An evaluation is short and makes much garbage, so the collector runs less often than by default while there is room.
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(int64(js.Global().Get("softMemoryLimit").Float()))
	js.Global().Set("engine", map[string]any{
		"check":    export(func(r *Request, _ []js.Value) any { return check(r.Files) }),
		"evaluate": export(func(r *Request, rest []js.Value) any { return evaluate(r, bytesOf(rest[1]), &timer{isOver: rest[0]}) }),
		"test":     export(func(r *Request, rest []js.Value) any { return test(r, &timer{isOver: rest[0]}) }),
	})
	select {}
}

const gcPercent = 200

// export makes a function for the host of one that takes a request and the arguments after it.
func export(run func(*Request, []js.Value) any) js.Func {
	return js.FuncOf(func(_ js.Value, arguments []js.Value) any {
		var r Request
		decoder := json.NewDecoder(bytes.NewReader(bytesOf(arguments[0])))
		decoder.UseNumber()
		if err := decoder.Decode(&r); err != nil {
			return textOf(failed(&Failure{"input_shape", err.Error()}))
		}
		return textOf(run(&r, arguments[1:]))
	})
}

func bytesOf(array js.Value) []byte {
	bytes := make([]byte, array.Length())
	js.CopyBytesToGo(bytes, array)
	return bytes
}

// callsPerLook is how often OPA asks whether it is cancelled for each time that the host is asked: that takes a
// microsecond, as long as a few steps of an evaluation.
const callsPerLook = 256

// timer cancels an evaluation once its time is over. A deadline of a context would never come, because the engine has a
// single thread.
type timer struct {
	isOver    js.Value
	calls     int
	cancelled bool
}

func (t *timer) Cancel() { t.cancelled = true }

func (t *timer) Cancelled() bool {
	if t.calls++; t.calls%callsPerLook == 0 && !t.cancelled {
		t.cancelled = t.isOver.Invoke().Bool()
	}
	return t.cancelled
}

// encode writes JSON as JavaScript does, without escapes for HTML. It fails for values of policies only: OPA has numbers
// that JSON has not, such as that of to_number(".5").
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimRight(buffer.Bytes(), "\n"), err
}

// textOf writes a reply.
func textOf(reply any) string {
	text, err := encode(reply)
	if err != nil {
		panic(err)
	}
	return string(text)
}
