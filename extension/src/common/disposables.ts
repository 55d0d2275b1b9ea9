/** What holds something and gives it back. The same shape as VS Code's. */
export interface Disposable {
  dispose(): void;
}

/** Owns others and disposes them with itself, newest first. Adding to a disposed store disposes at once. */
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
