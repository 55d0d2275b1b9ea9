/** The last characters of an output, and the number of characters left out before them. */
export class OutputTail {
  private text = "";
  private leftOut = 0;

  constructor(private readonly limit: number) {}

  add(text: string): void {
    this.text += text;
    // Cut rarely, because a program may print many short texts.
    if (this.text.length > 2 * this.limit) this.cut();
  }

  /** Returns the output since the last call. */
  take(): { text: string; leftOut: number } {
    this.cut();
    const { text, leftOut } = this;
    this.text = "";
    this.leftOut = 0;
    return { text, leftOut };
  }

  private cut(): void {
    const more = this.text.length - this.limit;
    if (more <= 0) return;
    this.text = this.text.slice(more);
    this.leftOut += more;
  }
}
