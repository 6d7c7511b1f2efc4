// What a server would do on processors that this machine does not have: a discrete-event simulation of its threads, fed
// with processor times that were measured. Caches, memory bandwidth and locks are not part of it, so it is an upper
// bound.

/** Work of one thread, in microseconds. Threads are numbered from 0. */
export type Step = { thread: number; microseconds: number };

/** The steps up to the response, one after another, and work that is done behind it and holds no client. */
export type Request = { reply: readonly Step[]; behind: readonly Step[] };

type Job = { step: Step; done: () => void };

/**
 * Simulates clients of which each sends its next request when it has the response to the last one. A thread does one
 * step at a time, in the order of their arrival, and keeps a processor until the step is done.
 * @param next describes the request with a number, from 0
 * @returns responses per second
 */
export function simulate(
  { processors, clients, requests }: { processors: number; clients: number; requests: number },
  next: (n: number) => Request,
): number {
  const queues = new Map<number, Job[]>();
  const waiting: number[] = [];
  const running = new Map<number, { job: Job; until: number }>();
  let [now, sent, answered] = [0, 0, 0];

  function enqueue(step: Step, done: () => void): void {
    const queue = queues.get(step.thread) ?? [];
    queues.set(step.thread, queue);
    if (queue.push({ step, done }) === 1 && !running.has(step.thread)) waiting.push(step.thread);
  }
  function send(): void {
    const { reply, behind } = next(sent++);
    const proceed = (place: number): void => {
      const step = reply[place];
      if (step) {
        enqueue(step, () => proceed(place + 1));
        return;
      }
      answered += 1;
      for (const further of behind) enqueue(further, () => {});
      send();
    };
    proceed(0);
  }

  for (let client = 0; client < clients; client += 1) send();
  while (answered < requests) {
    while (running.size < processors && waiting.length > 0) {
      const thread = waiting.shift() as number;
      const job = queues.get(thread)?.shift() as Job;
      running.set(thread, { job, until: now + job.step.microseconds });
    }
    const [thread, { job, until }] = [...running].reduce((a, b) => (b[1].until < a[1].until ? b : a));
    now = until;
    running.delete(thread);
    if ((queues.get(thread)?.length ?? 0) > 0) waiting.push(thread);
    job.done();
  }
  return (answered / now) * 1e6;
}
