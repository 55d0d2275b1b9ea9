/** A resource that can be released. Same shape as `vscode.Disposable`. */
export interface Disposable {
  dispose(): void;
}

/** Disposes its members together, newest first. A member added later is disposed at once. */
export class Disposables implements Disposable {
  private readonly items: Disposable[] = [];
  private disposed = false;

  add<T extends Disposable>(item: T): T {
    if (this.disposed) item.dispose();
    else this.items.push(item);
    return item;
  }

  dispose(): void {
    this.disposed = true;
    for (let item = this.items.pop(); item; item = this.items.pop()) item.dispose();
  }
}
