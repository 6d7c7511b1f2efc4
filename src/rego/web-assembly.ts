/** The part of the WebAssembly interface that the engine uses; Node's types do not declare it. */

export type CompiledModule = { readonly kind: "compiled module" };
export type Memory = { readonly buffer: ArrayBuffer };
type Instance = { readonly exports: { readonly mem: Memory } };

type WebAssemblyInterface = {
  compile(bytes: Uint8Array): Promise<CompiledModule>;
  Instance: new (module: CompiledModule, imports: object) => Instance;
};

export const webAssembly = (globalThis as unknown as { WebAssembly: WebAssemblyInterface }).WebAssembly;
