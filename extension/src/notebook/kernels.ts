/** The kernels of a window: one per agent, started with its first cell. */
import type { Disposable } from "../common/disposables";
import { Failure } from "../common/failure";
import { observe, type ArgsOf, type CellMetadata, type ObservationBody } from "../protocol";
import { IPYTHON, Kernel, type CellRequest, type CellView, type KernelSettings } from "./kernel";

export interface KernelsSettings {
  /** Settings of a new kernel. */
  kernel: (agent: string, number: number) => KernelSettings;
  /** Maximum number of kernels. A new kernel above it closes the kernel that was idle longest. */
  maxKernels: () => number;
  /** Shows an agent's cell to the user. */
  show: (agent: string, code: string) => CellView;
}

export class Kernels implements Disposable {
  private readonly kernels = new Map<string, Kernel>();
  /** Agents whose kernel was closed. Their next kernel informs them about this. */
  private readonly agentsOfClosedKernels = new Set<string>();
  private startedCount = 0;

  constructor(private readonly settings: KernelsSettings) {}

  async run(
    agent: string,
    order: CellRequest,
    onProgress: (shell: string, offset: number, data: Buffer) => void,
    signal: AbortSignal,
  ): Promise<ObservationBody> {
    const view = order.is_input ? undefined : this.settings.show(agent, order.code);
    const onPiece = (offset: number, data: Buffer): void => onProgress(IPYTHON, offset, data);
    return this.open(agent).run(order, view, onPiece, signal);
  }

  /**
   * Runs a cell of the user in the agent's kernel. `ask` answers `input()`; undefined interrupts
   * the cell. `signal` cancels it.
   */
  async runForUser(
    agent: string,
    order: CellRequest,
    view: CellView,
    ask: (question: string) => Promise<string | undefined>,
    signal: AbortSignal,
  ): Promise<void> {
    const kernel = this.open(agent);
    let seen = await kernel.run({ ...order, include_extra: false }, view, undefined, signal);
    while ((seen.extras.metadata as CellMetadata).state === "input") {
      const answer = await ask(seen.content.split("\n", 1)[0] ?? "");
      if (answer === undefined) return void kernel.interrupt(false);
      seen = await kernel.run({ ...order, code: answer, is_input: true }, undefined);
    }
  }

  async interrupt(agent: string, args: ArgsOf<"interrupt">): Promise<ObservationBody<"interrupt">> {
    const running = (await this.kernels.get(agent)?.interrupt(args.kill ?? false)) ?? false;
    const how = args.kill ? "killed" : "interrupted";
    const content = running ? `the cell was ${how}` : "no cell runs";
    return observe("interrupt", content, { shell: IPYTHON, was_running: running });
  }

  /** Ends every kernel. A cell could catch an interrupt, or leave a thread running. */
  stop(): void {
    for (const agent of this.kernels.keys()) this.agentsOfClosedKernels.add(agent);
    this.endAll();
  }

  endAll(): void {
    for (const kernel of this.kernels.values()) kernel.close();
    this.kernels.clear();
  }

  dispose(): void {
    this.endAll();
  }

  private open(agent: string): Kernel {
    const known = this.kernels.get(agent);
    if (known) return known;
    this.makeRoom();
    this.startedCount += 1;
    const settings = this.settings.kernel(agent, this.startedCount);
    const kernel = new Kernel(settings, this.agentsOfClosedKernels.delete(agent));
    this.kernels.set(agent, kernel);
    return kernel;
  }

  private makeRoom(): void {
    const most = this.settings.maxKernels();
    if (this.kernels.size < most) return;
    const idle = [...this.kernels].filter(([, kernel]) => !kernel.isRunning);
    const oldest = idle.sort(([, one], [, other]) => one.usedAt - other.usedAt)[0];
    if (!oldest)
      throw new Failure(
        "shell.too_many",
        `${this.kernels.size} agents run cells here, which is the limit (bascule.ipython.maxKernels)`,
      );
    oldest[1].close();
    this.kernels.delete(oldest[0]);
    this.agentsOfClosedKernels.add(oldest[0]);
  }
}
