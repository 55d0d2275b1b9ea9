// A second notebook kernel, so that VS Code has to ask the user for one: it returns cells in capitals.
const vscode = require("vscode");

function register() {
  const { createNotebookController } = vscode.notebooks;
  const controller = createNotebookController("second", "jupyter-notebook", "Second Kernel");
  controller.supportedLanguages = ["python"];
  controller.executeHandler = async (cells) => {
    for (const cell of cells) {
      const execution = controller.createNotebookCellExecution(cell);
      execution.start(Date.now());
      const text = cell.document.getText().toUpperCase();
      const item = vscode.NotebookCellOutputItem.text(text);
      await execution.replaceOutput([new vscode.NotebookCellOutput([item])]);
      execution.end(true, Date.now());
    }
  };
}

exports.activate = ({ subscriptions }) => {
  subscriptions.push(vscode.commands.registerCommand("secondKernel.register", register));
};
