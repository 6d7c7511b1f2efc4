export function parseRange(_h: string | undefined, _s: number): { start: number; end: number } | "unsatisfiable" | null { return null; }
