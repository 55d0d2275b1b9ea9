import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../hub/failure";
import { rest } from "../state";
import { Icon } from "../ui/icons";
import { saveAs } from "../ui/download";
import { EmptyState, ErrorNote, bytesText } from "../ui/parts";
import { crumbsOf, isText, imageType } from "./file_paths";

const MAX_SHOWN_BYTES = 2 * 2 ** 20;

/** Where the file browser reads from: a session, or a window. */
export interface FileSource {
  /** Lists a folder. Names of folders end with a slash. An empty path is the start folder. */
  list(path: string): Promise<{ path: string; names: string[] }>;
  /** A file's bytes; null if the file is larger than `maxBytes`. */
  read(path: string, maxBytes: number): Promise<Blob | null>;
}

export function sessionFiles(session: string): FileSource {
  return {
    list: (path) => rest.files(session, path),
    read: (path, maxBytes) => rest.file(session, path, maxBytes),
  };
}

/** The file browser. Content is shown as text or as an image, never rendered as a page. */
export function Files({ source }: { source: FileSource }) {
  const [here, setHere] = useState<{ path: string; names: string[] } | null>(null);
  const [root, setRoot] = useState("");
  const [file, setFile] = useState<string | null>(null);
  const [trouble, setTrouble] = useState("");
  const list = async (path: string): Promise<void> => {
    try {
      const found = await source.list(path);
      setHere(found);
      setRoot((known) => known || found.path);
      setTrouble("");
    } catch (error) {
      setTrouble(messageOf(error));
    }
  };
  useEffect(() => {
    void list("");
  }, [source]);
  if (trouble) return <ErrorNote what={trouble} again={() => void list(here?.path ?? "")} />;
  if (!here) return <p class="loading">Loading…</p>;
  const join = (name: string): string => `${here.path.replace(/\/$/, "")}/${name}`;
  return (
    <div class="files">
      <div class="files-list">
        <nav class="crumbs" aria-label="Folder">
          {crumbsOf(root, here.path).map((crumb) => (
            <button
              key={crumb.path}
              type="button"
              class="link"
              onClick={() => void list(crumb.path)}
            >
              {crumb.name}
            </button>
          ))}
          <button
            type="button"
            class="link again"
            onClick={() => void list(here.path)}
            aria-label="Reload"
          >
            ↻
          </button>
        </nav>
        {here.names.length === 0 && <p class="none">This folder is empty.</p>}
        <ul>
          {here.names.map((name) => {
            const isFolder = name.endsWith("/");
            const path = join(name.replace(/\/$/, ""));
            return (
              <li key={name}>
                <button
                  type="button"
                  aria-current={path === file ? "true" : undefined}
                  onClick={() => (isFolder ? void list(path) : setFile(path))}
                >
                  <Icon name={isFolder ? "folder" : "file"} />
                  {name.replace(/\/$/, "")}
                </button>
              </li>
            );
          })}
        </ul>
      </div>
      <div class="files-view">
        {file ? (
          <Viewer key={file} source={source} path={file} close={() => setFile(null)} />
        ) : (
          <EmptyState icon="file" title="Choose a file" />
        )}
      </div>
    </div>
  );
}

type FileContent =
  | { kind: "text"; text: string; blob: Blob }
  | { kind: "picture"; url: string; blob: Blob }
  | { kind: "binary"; blob: Blob }
  | { kind: "large" };

function Viewer(props: { source: FileSource; path: string; close: () => void }) {
  const { source, path } = props;
  const [shown, setShown] = useState<FileContent | null>(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    let pictureUrl = "";
    let isMounted = true;
    read(source, path).then(
      (found) => {
        if (found.kind === "picture") pictureUrl = found.url;
        if (isMounted) setShown(found);
        else if (pictureUrl) URL.revokeObjectURL(pictureUrl);
      },
      (error: unknown) => setTrouble(messageOf(error)),
    );
    return () => {
      isMounted = false;
      if (pictureUrl) URL.revokeObjectURL(pictureUrl);
    };
  }, [source, path]);
  return (
    <article>
      <header class="file-head">
        <button type="button" class="quiet files-back" onClick={props.close} aria-label="Close">
          <Icon name="back" />
        </button>
        <h2>{path.slice(path.lastIndexOf("/") + 1)}</h2>
        {shown && "blob" in shown && <span class="sub">{bytesText(shown.blob.size)}</span>}
        <button
          type="button"
          class="quiet"
          aria-label="Download"
          title="Download"
          onClick={() => void save(source, path).catch((e: unknown) => setTrouble(messageOf(e)))}
        >
          <Icon name="download" />
        </button>
      </header>
      {trouble && <ErrorNote what={trouble} />}
      {!shown && !trouble && <p class="loading">Loading…</p>}
      {shown?.kind === "text" && (
        <pre class="file-text" tabIndex={0} aria-label="File content">
          {shown.text}
        </pre>
      )}
      {shown?.kind === "picture" && <img class="picture" src={shown.url} alt={path} />}
      {shown?.kind === "binary" && <p class="none">This file is not text. You can download it.</p>}
      {shown?.kind === "large" && (
        <p class="none">
          This file is larger than {bytesText(MAX_SHOWN_BYTES)}. You can download it.
        </p>
      )}
    </article>
  );
}

async function read(source: FileSource, path: string): Promise<FileContent> {
  const blob = await source.read(path, MAX_SHOWN_BYTES);
  if (!blob) return { kind: "large" };
  const mimeType = imageType(path);
  if (mimeType)
    return {
      kind: "picture",
      url: URL.createObjectURL(new Blob([blob], { type: mimeType })),
      blob,
    };
  const data = new Uint8Array(await blob.arrayBuffer());
  if (!isText(data)) return { kind: "binary", blob };
  return { kind: "text", text: new TextDecoder().decode(data), blob };
}

async function save(source: FileSource, path: string): Promise<void> {
  const blob = await source.read(path, Infinity);
  if (!blob) return;
  saveAs(blob, path.slice(path.lastIndexOf("/") + 1));
}
