import { render } from "preact";
import { App } from "./app";
import { onLink } from "./router";
import { connection, key, connectionState, watchedSessionId, refusedReason } from "./state";
import "./theme";
import { WatchPage } from "./watch_page";

const root = document.getElementById("page");
if (root) {
  root.classList.toggle("watching", watchedSessionId !== null);
  render(watchedSessionId === null ? <App /> : <WatchPage id={watchedSessionId} />, root);
}
document.addEventListener("click", onLink);
if (key) connection.open();
else {
  connectionState.value = "refused";
  refusedReason.value = "This page was loaded without its access key. Sign in again.";
}
