import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import { ErrorNote } from "../ui/parts";

/** A view whose code is loaded when it is first shown. */
export function LazyView(props: {
  load: () => Promise<FunctionComponent<{ session: string }>>;
  session: string;
}) {
  const [View, setView] = useState<FunctionComponent<{ session: string }> | null>(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    props.load().then(
      (view) => setView(() => view),
      (error: unknown) => setTrouble(messageOf(error)),
    );
  }, []);
  if (trouble) return <ErrorNote what={trouble} again={() => location.reload()} />;
  return View ? <View session={props.session} /> : <p class="loading">Loading…</p>;
}
